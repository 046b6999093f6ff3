#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <unordered_map>

namespace mc2::server {

/// How often each client may ask: a bucket of one second's requests that fills at that rate (token bucket).
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
    double request_count = 0; ///< that may still pass
    Clock::time_point filled_at;
  };
  static constexpr std::size_t kMaxClients = 65'536;

  std::atomic<double> requests_per_s_;
  std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_; ///< of clients that asked in the last second
  Clock::time_point swept_at_;
};

} // namespace mc2::server
