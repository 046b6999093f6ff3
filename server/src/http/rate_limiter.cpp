#include "http/rate_limiter.hpp"

#include <algorithm>

namespace mc2::server {

bool RateLimiter::admit(const std::string& client, Clock::time_point now) {
  const double requests_per_s = requests_per_s_;
  if (requests_per_s == 0) return true;
  const double capacity = std::max(1.0, requests_per_s);
  const std::lock_guard lock(mutex_);
  constexpr std::chrono::seconds kForgetAfter{1};
  if (buckets_.size() >= kMaxClients && now - swept_at_ > kForgetAfter) {
    std::erase_if(buckets_, [&](const auto& entry) { return now - entry.second.filled_at > kForgetAfter; });
    swept_at_ = now;
  }
  // Clients above kMaxClients share one bucket.
  const bool has_room = buckets_.size() < kMaxClients || buckets_.contains(client);
  auto [found, is_new] = buckets_.try_emplace(has_room ? client : std::string(), Bucket{capacity, now});
  Bucket& bucket = found->second;
  const double waited_s = std::chrono::duration<double>(now - bucket.filled_at).count();
  bucket.request_count = std::min(capacity, bucket.request_count + waited_s * requests_per_s);
  bucket.filled_at = now;
  if (bucket.request_count < 1) return false;
  bucket.request_count -= 1;
  return true;
}

} // namespace mc2::server
