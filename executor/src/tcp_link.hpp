#pragma once

#include <fcntl.h>

#include <boost/asio.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

/// The messages that processes on several hosts exchange.
namespace mc2::executor::frames {

inline constexpr std::uint32_t kProtocol =
    0x6d633202; ///< first word of a frame; another value means another program or another version of this format
/// The longest text of a frame; messages are far shorter.
inline constexpr std::uint32_t kMostBytes = 64U << 20U;

enum class Kind : std::uint32_t {
  Hello = 1,   ///< a rank's host, number of ranks that it expects, and key
  Refused = 2, ///< the reason why a rank may not take part
  Welcome = 3, ///< all ranks have come; their hosts, by rank
  Data = 4,    ///< a rank's part of an all_gather
  Failed = 5,  ///< the reason of the first failure
  Left = 6,    ///< the rank exchanges no further messages
  Beat = 7,    ///< the sender is alive
};

/// Header of a frame. The hosts must have the same byte order, as all hosts that CUDA runs on do.
struct Header {
  std::uint32_t protocol = kProtocol;
  Kind kind = Kind::Beat;
  std::int32_t rank = 0;
  std::uint32_t byte_count = 0;
};
static_assert(sizeof(Header) == 16);

using Message = std::shared_ptr<const std::string>;

/// The bytes of a frame: header and text.
inline Message message_of(Kind kind, int rank, std::string_view text) {
  const Header header{.kind = kind, .rank = rank, .byte_count = static_cast<std::uint32_t>(text.size())};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return std::make_shared<const std::string>(bytes.append(text));
}

/// A connection with another process. Only the network's thread uses it.
struct Link : std::enable_shared_from_this<Link> {
  using Socket = boost::asio::ip::tcp::socket;

  explicit Link(Socket connected) : socket(std::move(connected)) {
    boost::system::error_code ignored;
    socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    (void)fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  }

  /// @param written  called when the system has taken the frame, or the connection has failed; may be empty
  void send(Message message, std::function<void()> written = {}) {
    outbox.push_back({std::move(message), std::move(written)});
    if (outbox.size() == 1) write_next();
  }
  void write_next() {
    boost::asio::async_write(socket, boost::asio::buffer(*outbox.front().message),
                             [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                               do {
                                 const Outgoing done = std::move(self->outbox.front());
                                 self->outbox.pop_front();
                                 if (done.written) done.written();
                               } while (error && !self->outbox.empty()); // the reader reports the failure
                               if (!self->outbox.empty()) self->write_next();
                             });
  }

  struct Outgoing {
    Message message;
    std::function<void()> written;
  };

  Socket socket;
  int rank = -1; ///< the rank at the other end
  Header header;
  std::string text;
  std::deque<Outgoing> outbox; ///< the first one is being written
  std::chrono::steady_clock::time_point last_heard = std::chrono::steady_clock::now();
};

} // namespace mc2::executor::frames
