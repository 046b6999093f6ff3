#include <algorithm>
#include <mutex>
#include <vector>

#include "backends/host/combine.hpp"
#include "backends/host/pull_schedule.hpp"
#include "backends/host/transport.hpp"

namespace mc2::executor::host {
namespace {

class EmulatedTransport final : public Transport {
 public:
  EmulatedTransport(const LinkSpec& link, int world_size)
      : link_(link), lanes_(static_cast<std::size_t>(world_size)), schedule_(world_size) {}

  void begin_run(Clock::time_point start) noexcept override {
    start_ = start;
    for (Lane& lane : lanes_) lane.free_at = start;
    schedule_.reset();
  }

  ExchangeTimes exchange(const BlockExchange& block, const RunControl& control) override {
    Lane& lane = lanes_[static_cast<std::size_t>(block.rank)];
    const auto start = std::max(block.ready, lane.free_at);
    post(block, start);
    combine(block, block.pieces->sources);
    const auto combined = Clock::now();
    lane.free_at = std::max(wait_for_delivery(block.rank, control), combined);
    return {start, lane.free_at};
  }

 private:
  struct alignas(64) Lane { // a cache line each: every rank's lane writes its own
    Clock::time_point free_at;
  };

  void post(const BlockExchange& block, Clock::time_point start) {
    constexpr double kBitsPerByte = 8;
    constexpr double kNsPerS = 1e9;
    const double piece_ns = static_cast<double>(block.piece_bytes()) * kBitsPerByte / link_.bits_per_s * kNsPerS;
    const double start_ns = std::chrono::duration<double, std::nano>(start - start_).count();
    const std::lock_guard lock(mutex_);
    schedule_.post(block.rank, start_ns + link_.latency_us * planner::kNsPerUs, piece_ns, block.order);
  }

  /// Sleeps until the rank has its pieces; others that start meanwhile may put that off.
  Clock::time_point wait_for_delivery(int rank, const RunControl& control) {
    for (;;) {
      const double end_ns = projected_end_ns(rank);
      const auto delivery = time_at(end_ns);
      control.sleep_until(delivery, rank);
      const std::lock_guard lock(mutex_);
      if (schedule_.is_finished_at(rank, end_ns)) return delivery;
    }
  }

  double projected_end_ns(int rank) {
    const std::lock_guard lock(mutex_);
    return schedule_.projected_end_ns(rank);
  }

  [[nodiscard]] Clock::time_point time_at(double ns) const {
    // A slow link and a large block exceed what nanoseconds can count; no run lasts that long.
    constexpr double kLongestNs = 1e18;
    return start_ + std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(ns, kLongestNs)));
  }

  LinkSpec link_;
  Clock::time_point start_;
  std::vector<Lane> lanes_; ///< by rank
  std::mutex mutex_;
  PullSchedule schedule_; ///< under mutex_
};

} // namespace

std::unique_ptr<Transport> make_emulated_transport(const LinkSpec& link, int world_size) {
  return std::make_unique<EmulatedTransport>(link, world_size);
}

} // namespace mc2::executor::host
