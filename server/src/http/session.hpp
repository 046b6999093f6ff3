#pragma once

#include "http/rate_limiter.hpp"
#include "http/upload_file.hpp"
#include "mc2/server/listener.hpp"

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace mc2::server {

namespace net = boost::asio;
namespace beast = boost::beast;

/// The open connections, so that stopping can end those that wait for a request. Threads: safe to share.
class SessionList {
 public:
  /// Ends a connection's wait for its next request. Called on any thread.
  using Interrupt = std::function<void()>;
  struct Open {
    std::string client;
    Interrupt interrupt;
  };
  using Place = std::list<Open>::iterator;

  [[nodiscard]] Place add(std::string client, Interrupt interrupt);
  void remove(Place place);
  [[nodiscard]] std::size_t size() const;
  /// Open connections of one client address.
  [[nodiscard]] std::size_t size_of(const std::string& client) const;
  [[nodiscard]] bool is_stopping() const noexcept { return is_stopping_; }
  /// Interrupts every open connection; is_stopping() is true from now on.
  void stop();

 private:
  mutable std::mutex mutex_;
  std::list<Open> open_;
  std::unordered_map<std::string, std::size_t> count_of_; ///< by client, without zeros
  std::atomic<bool> is_stopping_{false};
};

/// The limits that are valid now. Threads: safe to share.
class LiveLimits {
 public:
  explicit LiveLimits(const Limits& limits) { set(limits); }
  void set(const Limits& limits) {
    auto next = std::make_shared<const Limits>(limits);
    const std::lock_guard lock(mutex_);
    now_ = std::move(next);
  }
  /// Shared with the requests that began under these limits.
  [[nodiscard]] std::shared_ptr<const Limits> get() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Limits> now_; ///< under mutex_
};

/// What every connection uses.
struct SessionContext {
  Service& service;
  const LiveLimits& limits;
  const AccessLog& log;
  SessionList& sessions;
  RateLimiter& rates;
  UploadRoom& uploads;
  net::thread_pool& upload_pool;                 ///< answers requests with large bodies
  net::thread_pool &writing_pool, &reading_pool; ///< Work::Write, Work::Read
  net::thread_pool& planning_pool;
  net::thread_pool& copying_pool;
};

/// A TCP or Unix socket: one type for both, because the code that serves it takes long to compile.
using PlainStream = beast::basic_stream<net::generic::stream_protocol, net::any_io_executor>;
using TlsStream = beast::ssl_stream<PlainStream>;

/// Serves one connection to its end. The stream's executor must run one handler at a time.
template <typename Stream>
[[nodiscard]] net::awaitable<void> serve_connection(Stream stream, std::string client, SessionContext context);

/// Counts as one in `count` as long as it lives.
class PlaceTaken {
 public:
  explicit PlaceTaken(std::atomic<int>& count) : count_(&count) { ++count; }
  ~PlaceTaken() {
    if (count_ != nullptr) --*count_;
  }
  PlaceTaken(PlaceTaken&& from) noexcept : count_(std::exchange(from.count_, nullptr)) {}
  PlaceTaken& operator=(PlaceTaken&&) = delete;

 private:
  std::atomic<int>* count_;
};

/// Answers a connection that there is no room for (503, Retry-After), and reads on so that the client gets the answer.
/// Takes 5 s at most.
template <typename Stream>
[[nodiscard]] net::awaitable<void> turn_away(Stream stream, PlaceTaken place);

} // namespace mc2::server
