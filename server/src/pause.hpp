#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace mc2::server {

/// Waits for this time, or until a stop is requested. Returns whether a stop was requested.
template <typename Duration>
[[nodiscard]] bool ends_within(const std::stop_token& ends, Duration time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  return never.wait_for(lock, ends, time, [&] { return ends.stop_requested(); });
}

} // namespace mc2::server
