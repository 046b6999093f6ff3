#pragma once

#include <utility> // Asio 1.74 lacks this include

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>

#include "mc2/server/service.hpp"

namespace mc2::server {

/// Lets a connection's coroutine wait until the service has news. Use it on `executor` only, which must run one handler
/// at a time.
class Waiter {
 public:
  /// @param most  clients that may wait at a time
  Waiter(const boost::asio::any_io_executor& executor, Service& service, int most);
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Whether `most` clients waited already; then this one must not call wait().
  [[nodiscard]] bool is_turned_away() const noexcept { return subscription_ == nullptr; }

  /// Returns once Service::has_news(told), and after `patience` at the latest; may return earlier.
  [[nodiscard]] boost::asio::awaitable<void> wait(std::int64_t told, std::chrono::steady_clock::duration patience);

 private:
  struct Alarm;
  Service& service_;
  std::shared_ptr<Alarm> alarm_;
  std::shared_ptr<void> subscription_;
};

} // namespace mc2::server
