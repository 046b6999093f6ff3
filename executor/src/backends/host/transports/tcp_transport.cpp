#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "backends/host/transports/transport.hpp"
#include "lanes/combine.hpp"
#include "texts.hpp"

namespace mc2::executor::host {
namespace {

/// Turns a failed socket call into a SystemError; no other code does.
long checked(const char* call, int rank, long rc) {
  if (rc >= 0) return rc;
  const int code = errno;
  throw SystemError(call, code, rank_text(rank) + ": " + std::strerror(code));
}

class Socket {
 public:
  Socket() = default;
  explicit Socket(long descriptor) : descriptor_(static_cast<int>(descriptor)) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_ = -1;
};

Socket new_socket(int rank) { return Socket(checked("socket", rank, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))); }

sockaddr_in loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

sockaddr* generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

sockaddr_in local_address(const Socket& socket, int rank) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  checked("getsockname", rank, getsockname(socket.descriptor(), generic(address), &length));
  return address;
}

/// A listener that only this machine can reach, on a port that the kernel picks.
Socket listen_on_loopback(int rank) {
  Socket listener = new_socket(rank);
  sockaddr_in address = loopback();
  checked("bind", rank, bind(listener.descriptor(), generic(address), sizeof address));
  checked("listen", rank, listen(listener.descriptor(), 1));
  return listener;
}

/// Accepts the connection whose other end is `expected` and closes any other.
Socket accept_from(const Socket& listener, const sockaddr_in& expected, int rank) {
  for (;;) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    Socket accepted(checked("accept4", rank, accept4(listener.descriptor(), generic(peer), &length, SOCK_CLOEXEC)));
    if (peer.sin_port == expected.sin_port && peer.sin_addr.s_addr == expected.sin_addr.s_addr) return accepted;
  }
}

void configure(const Socket& socket, std::uint64_t bytes_per_s, int rank) {
  const int one = 1;
  checked("setsockopt(TCP_NODELAY)", rank, setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
  checked("setsockopt(SO_MAX_PACING_RATE)", rank,
          setsockopt(socket.descriptor(), SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, sizeof bytes_per_s));
}

/// The progress of one block with one peer.
struct PeerState {
  int rank = 0;
  Socket socket;
  const std::byte* outgoing = nullptr;
  std::byte* incoming = nullptr;
  std::size_t outgoing_size = 0; ///< bytes
  std::size_t incoming_size = 0;
  std::size_t sent = 0;
  std::size_t received = 0;

  [[nodiscard]] bool is_finished() const noexcept { return sent == outgoing_size && received == incoming_size; }
};

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/// One rank's end of the mesh.
class Endpoint {
 public:
  Endpoint(int rank, int world_size) : rank_(rank), ordered_(static_cast<std::size_t>(world_size)) {
    peers_.reserve(static_cast<std::size_t>(world_size) - 1);
    polls_.resize(static_cast<std::size_t>(world_size) - 1);
  }

  void add_peer(int peer, Socket socket) { peers_.push_back({.rank = peer, .socket = std::move(socket)}); }

  lanes::ExchangeTimes exchange(const lanes::BlockExchange& block, const lanes::RunControl& control) {
    const auto start = lanes::Clock::now();
    for (std::size_t i = 0; i < peers_.size(); ++i) start_piece(peers_[i], i, block);
    while (!move_what_can_move(block.order)) wait_for_sockets(block.block, control);
    finish_own(block);
    return {start, lanes::Clock::now()};
  }

  void abort() noexcept {
    for (const PeerState& peer : peers_) shutdown(peer.socket.descriptor(), SHUT_RDWR);
  }

 private:
  /// A piece that is only moved is received at its final place. A piece that is summed, or whose rows do not lie
  /// densely, is received in the staging memory.
  static void start_piece(PeerState& peer, std::size_t index, const lanes::BlockExchange& block) {
    const auto piece_bytes = static_cast<std::size_t>(block.piece_bytes());
    const auto rank = static_cast<std::size_t>(peer.rank);
    peer.outgoing = block.pieces->outgoing[rank];
    peer.outgoing_size = static_cast<std::size_t>(block.pieces->outgoing_bytes[rank]);
    peer.incoming_size = static_cast<std::size_t>(block.pieces->incoming_bytes[rank]);
    const bool is_staged = block.is_summed() || !block.landing.is_dense();
    peer.incoming = is_staged ? block.staging.data() + index * piece_bytes : block.pieces->landings[rank];
    peer.sent = peer.received = 0;
  }

  /// Sends and receives what the sockets take and have. True when every piece has been sent and received.
  bool move_what_can_move(lanes::PeerOrder order) {
    bool is_finished = true;
    const int peer_count = static_cast<int>(peers_.size());
    for (int i = 0; i < peer_count; ++i) {
      const int rank = lanes::peer_at(order, rank_, peer_count + 1, i);
      PeerState& peer = peers_[static_cast<std::size_t>(rank < rank_ ? rank : rank - 1)];
      send_some(peer, {peer.outgoing, peer.outgoing_size});
      receive_some(peer, {peer.incoming, peer.incoming_size});
      is_finished = is_finished && peer.is_finished();
    }
    return is_finished;
  }

  void send_some(PeerState& peer, std::span<const std::byte> block) const {
    const auto rest = block.subspan(peer.sent);
    if (rest.empty()) return;
    const long sent = send(peer.socket.descriptor(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && would_block()) return;
    peer.sent += static_cast<std::size_t>(checked("send", rank_, sent));
  }

  void receive_some(PeerState& peer, std::span<std::byte> block) const {
    const auto rest = block.subspan(peer.received);
    if (rest.empty()) return;
    const long received = recv(peer.socket.descriptor(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (received < 0 && would_block()) return;
    if (received == 0) {
      throw SystemError("recv", ECONNRESET, rank_text(rank_) + ": " + rank_text(peer.rank) + " closed the connection");
    }
    peer.received += static_cast<std::size_t>(checked("recv", rank_, received));
  }

  void wait_for_sockets(std::size_t block, const lanes::RunControl& control) {
    control.throw_if_aborted();
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const PeerState& peer = peers_[i];
      polls_[i].fd = peer.is_finished() ? -1 : peer.socket.descriptor(); // poll skips negative descriptors
      polls_[i].events = static_cast<short>((peer.sent < peer.outgoing_size ? POLLOUT : 0) |
                                            (peer.received < peer.incoming_size ? POLLIN : 0));
    }
    const auto left = control.deadline() - lanes::Clock::now();
    if (left <= lanes::Clock::duration::zero()) throw lanes::deadline_error(awaited_text(block));
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec limit{.tv_sec = static_cast<time_t>(seconds.count()),
                         .tv_nsec = static_cast<long>(std::chrono::nanoseconds(left - seconds).count())};
    const int rc = ppoll(polls_.data(), polls_.size(), &limit, nullptr);
    if (rc < 0 && errno != EINTR) checked("ppoll", rank_, rc);
    control.throw_if_aborted();
  }

  [[nodiscard]] std::string awaited_text(std::size_t block) const {
    const auto slow = std::ranges::find_if(peers_, [](const PeerState& peer) { return !peer.is_finished(); });
    return rank_text(rank_) + " waited for block " + std::to_string(block) + " of rank " +
           (slow == peers_.end() ? "?" : std::to_string(slow->rank));
  }

  /// Does what the messages leave to do: places the own piece, forms the sum, and spreads staged pieces over their
  /// rows.
  void finish_own(const lanes::BlockExchange& block) {
    const auto own = static_cast<std::size_t>(rank_);
    if (!block.is_summed()) {
      lanes::land(block, rank_, block.pieces->sources[own]);
      if (!block.landing.is_dense()) { // dense pieces have been received in place
        for (const PeerState& peer : peers_) lanes::land(block, peer.rank, peer.incoming);
      }
      lanes::add_residuals(block);
      return;
    }
    ordered_[own] = block.pieces->sources[own];
    for (const PeerState& peer : peers_) ordered_[static_cast<std::size_t>(peer.rank)] = peer.incoming;
    lanes::combine(block, ordered_);
  }

  int rank_;
  std::vector<PeerState> peers_; ///< ascending by rank
  std::vector<pollfd> polls_;
  std::vector<const std::byte*> ordered_; ///< by rank: the pieces that are being summed
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(const LinkSpec& link, int world_size) {
    constexpr double kBitsPerByte = 8;
    const double per_peer = link.bits_per_s / kBitsPerByte / (world_size - 1);
    const auto bytes_per_s = static_cast<std::uint64_t>(std::max(1.0, per_peer));
    for (int rank = 0; rank < world_size; ++rank) endpoints_.emplace_back(rank, world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      for (int peer = rank + 1; peer < world_size; ++peer) connect_pair(rank, peer, bytes_per_s);
    }
  }

  [[nodiscard]] bool reads_peers_directly() const noexcept override { return false; }

  [[nodiscard]] std::int64_t staging_bytes(std::int64_t piece_bytes) const noexcept override {
    return (static_cast<std::int64_t>(endpoints_.size()) - 1) * piece_bytes;
  }

  lanes::ExchangeTimes exchange(const lanes::BlockExchange& block, const lanes::RunControl& control) override {
    return endpoints_[static_cast<std::size_t>(block.rank)].exchange(block, control);
  }

  void abort() noexcept override {
    for (Endpoint& endpoint : endpoints_) endpoint.abort();
  }

 private:
  void connect_pair(int rank, int peer, std::uint64_t bytes_per_s) {
    const Socket listener = listen_on_loopback(peer);
    sockaddr_in address = local_address(listener, peer);
    Socket outgoing = new_socket(rank);
    checked("connect", rank, connect(outgoing.descriptor(), generic(address), sizeof address));
    Socket incoming = accept_from(listener, local_address(outgoing, rank), peer);
    configure(outgoing, bytes_per_s, rank);
    configure(incoming, bytes_per_s, peer);
    endpoints_[static_cast<std::size_t>(rank)].add_peer(peer, std::move(outgoing));
    endpoints_[static_cast<std::size_t>(peer)].add_peer(rank, std::move(incoming));
  }

  std::vector<Endpoint> endpoints_; ///< by rank
};

} // namespace

std::unique_ptr<Transport> make_tcp_transport(const LinkSpec& link, int world_size) {
  return std::make_unique<TcpTransport>(link, world_size);
}

} // namespace mc2::executor::host
