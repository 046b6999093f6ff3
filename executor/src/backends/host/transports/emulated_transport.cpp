#include <algorithm>
#include <mutex>
#include <vector>

#include "backends/host/transports/pull_schedule.hpp"
#include "backends/host/transports/transport.hpp"
#include "lanes/combine.hpp"

namespace mc2::executor::host {
namespace {

class EmulatedTransport final : public Transport {
 public:
  EmulatedTransport(const LinkSpec& link, int world_size)
      : link_(link), lanes_(static_cast<std::size_t>(world_size)), schedule_(world_size) {
    for (Lane& lane : lanes_) lane.piece_ns.resize(lanes_.size());
  }

  void begin_run(lanes::Clock::time_point start) noexcept override {
    start_ = start;
    for (Lane& lane : lanes_) lane.free_at = start;
    schedule_.reset();
  }

  lanes::ExchangeTimes exchange(const lanes::BlockExchange& block, const lanes::RunControl& control) override {
    Lane& lane = lanes_[static_cast<std::size_t>(block.rank)];
    const auto start = std::max(block.ready, lane.free_at);
    const bool has_link_work = measure_pieces(block, lane.piece_ns);
    if (!has_link_work && block.pieces->incoming_bytes[static_cast<std::size_t>(block.rank)] == 0)
      return {start, start};
    if (has_link_work) post(block, start, lane.piece_ns);
    lanes::combine(block, block.pieces->sources);
    lane.free_at = std::max(start, lanes::Clock::now());
    if (has_link_work) lane.free_at = std::max(wait_for_delivery(block.rank, control), lane.free_at);
    return {start, lane.free_at};
  }

 private:
  struct alignas(64) Lane { // one cache line each, because every rank's lane writes its own
    lanes::Clock::time_point free_at;
    std::vector<double> piece_ns; ///< by rank: link time of the piece in the present block
  };

  /// Computes the link time of each peer's piece; false when no peer has a piece for this rank.
  bool measure_pieces(const lanes::BlockExchange& block, std::span<double> piece_ns) const {
    constexpr double kBitsPerByte = 8;
    constexpr double kNsPerS = 1e9;
    bool has_any = false;
    for (std::size_t peer = 0; peer < piece_ns.size(); ++peer) {
      const auto bytes = static_cast<double>(block.pieces->incoming_bytes[peer]);
      piece_ns[peer] = bytes * kBitsPerByte / link_.bits_per_s * kNsPerS;
      has_any = has_any || (bytes > 0 && peer != static_cast<std::size_t>(block.rank));
    }
    return has_any;
  }

  void post(const lanes::BlockExchange& block, lanes::Clock::time_point start, std::span<const double> piece_ns) {
    const double start_ns = std::chrono::duration<double, std::nano>(start - start_).count();
    const std::lock_guard lock(mutex_);
    schedule_.post(block.rank, start_ns + link_.latency_us * planner::kNsPerUs, piece_ns, block.order);
  }

  /// Sleeps until the rank has its pieces. Ranks that start to pull meanwhile may delay the delivery, so the end is
  /// checked again.
  lanes::Clock::time_point wait_for_delivery(int rank, const lanes::RunControl& control) {
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

  [[nodiscard]] lanes::Clock::time_point time_at(double ns) const {
    // The clamp avoids overflow: a slow link and a large block exceed what 64-bit nanoseconds can count.
    constexpr double kLongestNs = 1e18;
    return start_ + std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(ns, kLongestNs)));
  }

  LinkSpec link_;
  lanes::Clock::time_point start_;
  std::vector<Lane> lanes_; ///< by rank
  std::mutex mutex_;
  PullSchedule schedule_; ///< guarded by mutex_
};

} // namespace

std::unique_ptr<Transport> make_emulated_transport(const LinkSpec& link, int world_size) {
  return std::make_unique<EmulatedTransport>(link, world_size);
}

} // namespace mc2::executor::host
