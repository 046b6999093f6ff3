#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "transport.hpp"

namespace mc2::client {
namespace {

namespace wire = boost::beast::http;
using Clock = std::chrono::steady_clock;
using Parser = wire::response_parser<wire::string_body>;

Error failed(const std::string& what) {
  return {kUnavailable, "", what + ": " + std::generic_category().message(errno)};
}

/// Owns a file descriptor and closes it.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(Socket&& from) noexcept : descriptor_(std::exchange(from.descriptor_, -1)) {}
  Socket& operator=(Socket&& from) noexcept {
    std::swap(descriptor_, from.descriptor_);
    return *this;
  }

  [[nodiscard]] int get() const noexcept { return descriptor_; }
  /// Whether the connection is idle and the service still holds the other end.
  [[nodiscard]] bool is_open() const {
    pollfd state{.fd = descriptor_, .events = POLLIN, .revents = 0};
    return ::poll(&state, 1, 0) == 0;
  }
  /// Polls for something to read for less time than a wake-up takes, since a cached answer comes that soon. Yields in
  /// between, so that a service on the same single processor can run.
  void look_out() const {
    constexpr std::chrono::microseconds kMostTime{50};
    const auto end = Clock::now() + kMostTime;
    char first = 0;
    while (::recv(descriptor_, &first, 1, MSG_PEEK) < 0 && errno == EAGAIN && Clock::now() < end)
      std::this_thread::yield();
  }
  /// Waits until the socket can be written or read, as `events` says. False if `end` comes first.
  [[nodiscard]] bool wait(short events, Clock::time_point end) const {
    pollfd state{.fd = descriptor_, .events = events, .revents = 0};
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      if (left.count() <= 0) return false;
      const int ready = ::poll(&state, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
      if (ready > 0) return true;
    }
  }

 private:
  int descriptor_;
};

/// Errors: kUnavailable.
Result<Socket> connect_to(const std::string& path, Clock::time_point end, const std::stop_token& stop) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return failed("cannot make a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    // EAGAIN: the socket's backlog is full because many clients connect at once
    if (errno != EAGAIN || Clock::now() >= end || stop.stop_requested()) return failed("cannot connect");
    ::poll(nullptr, 0, 1);
  }
  return socket;
}

/// One request in progress.
struct Call {
  const std::string& bytes;
  std::chrono::milliseconds deadline;
  Clock::time_point end;
  const std::stop_token& stop;
  bool& has_answer_begun; ///< becomes true with the first byte of the answer
};

struct Received {
  HttpAnswer answer;
  bool may_go_on = false; ///< whether the connection may be used for another request
};

/// Errors: kUnavailable.
Result<void> send(const Socket& socket, const Call& call) {
  std::string_view rest = call.bytes;
  while (!rest.empty()) {
    const auto count = ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return failed("cannot be sent to");
    if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
    if (!rest.empty() && !socket.wait(POLLOUT, call.end)) return too_late(call.deadline);
  }
  return {};
}

/// Parses the bytes read so far. False if the parser needs more. Errors: kUnavailable.
Result<bool> parse(Parser& parser, boost::beast::flat_buffer& buffer, std::size_t max_bytes) {
  boost::system::error_code error;
  buffer.consume(parser.put(buffer.data(), error));
  const bool is_too_large = parser.is_header_done() && parser.content_length().value_or(0) > max_bytes;
  if (is_too_large || error == wire::error::body_limit)
    return Error{kUnavailable, "", "answers with more than " + std::to_string(max_bytes) + " bytes"};
  if (error && error != wire::error::need_more)
    return Error{kUnavailable, "", "answers with what is no HTTP: " + error.message()};
  parser.eager(parser.is_header_done()); // so that memory for a body is reserved only once its size was checked
  return !error;
}

HttpAnswer answer_of(Parser::value_type& message) {
  const auto type = message[wire::field::content_type], location = message[wire::field::location];
  return {static_cast<int>(message.result_int()),
          {type.data(), type.size()},
          std::move(message.body()),
          {location.data(), location.size()}};
}

class SocketTransport : public Transport {
 public:
  explicit SocketTransport(const Options& options)
      : path_(options.url.substr(kSocketScheme.size())),
        token_(options.token),
        max_answer_bytes_(options.max_answer_bytes) {}

  Result<HttpAnswer> call(const HttpRequest& request, std::chrono::milliseconds deadline,
                          const std::stop_token& stop) const override;

 private:
  [[nodiscard]] std::string to_bytes(const HttpRequest& request) const;
  [[nodiscard]] std::optional<Socket> idle_connection() const;
  [[nodiscard]] Result<HttpAnswer> exchange(Socket socket, const Call& call) const;
  [[nodiscard]] Result<Received> talk(const Socket& socket, const Call& call) const;

  std::string path_, token_;
  std::size_t max_answer_bytes_;
  mutable std::mutex mutex_;
  mutable std::vector<Socket> idle_; ///< under mutex_
  mutable pid_t owner_ = ::getpid(); ///< the process that opened idle_; under mutex_
};

std::string SocketTransport::to_bytes(const HttpRequest& request) const {
  std::string bytes =
      request.method + ' ' + request.target + " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: " + kUserAgent;
  if (!token_.empty()) bytes += "\r\nAuthorization: Bearer " + token_;
  for (const auto& [name, value] : request.headers) bytes += "\r\n" + name + ": " + value;
  if (!request.body.empty())
    bytes += "\r\nContent-Type: " + request.content_type + "\r\nContent-Length: " + std::to_string(request.body.size());
  return bytes + "\r\n\r\n" + request.body;
}

std::optional<Socket> SocketTransport::idle_connection() const {
  const std::lock_guard lock(mutex_);
  // A forked child must not use its parent's connections: the answers of both would get mixed up.
  if (std::exchange(owner_, ::getpid()) != ::getpid()) idle_.clear();
  while (!idle_.empty()) {
    Socket socket = std::move(idle_.back());
    idle_.pop_back();
    if (socket.is_open()) return socket;
  }
  return std::nullopt;
}

Result<Received> SocketTransport::talk(const Socket& socket, const Call& call) const {
  constexpr std::size_t kPieceBytes = 64 << 10;
  MC2_TRY(send(socket, call));
  socket.look_out();
  Parser parser;
  parser.body_limit(max_answer_bytes_);
  boost::beast::flat_buffer buffer;
  while (!parser.is_done()) {
    if (buffer.size() > 0) {
      MC2_ASSIGN(const bool has_parsed, parse(parser, buffer, max_answer_bytes_));
      if (has_parsed) continue;
    }
    const auto piece = buffer.prepare(kPieceBytes);
    const auto count = ::recv(socket.get(), piece.data(), piece.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!socket.wait(POLLIN, call.end) || call.stop.stop_requested()) return too_late(call.deadline);
      continue;
    }
    if (count < 0) return failed("cannot be read from");
    if (count == 0) return Error{kUnavailable, "", "has ended the connection before its answer"};
    call.has_answer_begun = true;
    buffer.commit(static_cast<std::size_t>(count));
  }
  return Received{answer_of(parser.get()), parser.get().keep_alive() && buffer.size() == 0};
}

Result<HttpAnswer> SocketTransport::exchange(Socket socket, const Call& call) const {
  auto received = [&] {
    const std::stop_callback cut(call.stop, [&socket] { ::shutdown(socket.get(), SHUT_RDWR); }); // ends the wait
    return talk(socket, call);
  }();
  if (!received) return received.error();
  if (received.value().may_go_on && !call.stop.stop_requested()) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(socket));
  }
  return std::move(received).value().answer;
}

/// Whether sending the request twice has the same effect as sending it once.
bool may_be_repeated(const HttpRequest& request) {
  const auto is_condition = [](const auto& header) { return header.first.starts_with("If-"); };
  if (request.method == "GET") return true;
  return std::ranges::none_of(request.headers, is_condition) && // which fails once the write has been carried out
         !request.target.starts_with("/v1/measurements");
}

Result<HttpAnswer> SocketTransport::call(const HttpRequest& request, std::chrono::milliseconds deadline,
                                         const std::stop_token& stop) const {
  bool has_answer_begun = false;
  const std::string bytes = to_bytes(request);
  const Call call{bytes, deadline, Clock::now() + deadline, stop, has_answer_begun};
  if (auto kept = idle_connection()) {
    auto answer = exchange(*std::move(kept), call);
    const bool is_over = answer.ok() || stop.stop_requested() || Clock::now() >= call.end;
    if (is_over || has_answer_begun || !may_be_repeated(request)) return answer;
  } // otherwise the service closed the idle connection just now: connect anew
  MC2_ASSIGN(auto socket, connect_to(path_, call.end, stop));
  return exchange(std::move(socket), call);
}

} // namespace

std::unique_ptr<Transport> socket_transport(const Options& options) {
  return std::make_unique<SocketTransport>(options);
}

std::string socket_url_fault(const std::string& url) {
  const std::string_view path = std::string_view(url).substr(kSocketScheme.size());
  if (!path.starts_with('/')) return "names no absolute path of a socket";
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return "is longer than the path of a socket may be (107 bytes)";
  if (path.find('\0') != std::string_view::npos) return "has a zero byte";
  return {};
}

} // namespace mc2::client
