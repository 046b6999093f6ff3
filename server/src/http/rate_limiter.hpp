#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>

namespace mc2::server {

/// Limits how often each client may ask. A token bucket for each client holds the requests of one second, at least 1.
/// Threads: safe to share.
class RateLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param requests_per_s  0: no limit
  explicit RateLimiter(double requests_per_s) : requests_per_s_(requests_per_s) {}

  void set_rate(double requests_per_s) { requests_per_s_ = requests_per_s; }

  /// Whether this request may pass.
  [[nodiscard]] bool admit(const std::string& client, Clock::time_point now);

 private:
  struct Bucket {
    double request_count = 0; ///< requests that may still pass
    Clock::time_point filled_at;
  };
  static constexpr std::size_t kMaxClients = 65'536;

  std::atomic<double> requests_per_s_;
  std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_; ///< swept at kMaxClients; under mutex_
  Clock::time_point swept_at_;
};

} // namespace mc2::server
