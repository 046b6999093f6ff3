#include <algorithm>
#include <vector>

#include "backends/host/combine.hpp"
#include "backends/host/transport.hpp"

namespace mc2::executor::host {
namespace {

class EmulatedTransport final : public Transport {
 public:
  EmulatedTransport(const LinkSpec& link, int world_size)
      : link_(link), incoming_(static_cast<std::size_t>(world_size)) {}

  void begin_run(Clock::time_point start) noexcept override {
    for (Incoming& direction : incoming_) direction.free_at = start;
  }

  ExchangeTimes exchange(const BlockExchange& block, const RunControl& control) override {
    Incoming& direction = incoming_[static_cast<std::size_t>(block.rank)];
    const auto start = std::max(block.ready, direction.free_at);
    const auto delivery = start + transfer_time(block);
    combine(block, block.pieces->sources);
    const auto combined = Clock::now();
    control.sleep_until(delivery, block.rank);
    direction.free_at = std::max(delivery, combined);
    return {start, direction.free_at};
  }

 private:
  struct alignas(64) Incoming { // a cache line each: every rank's lane writes its own
    Clock::time_point free_at;
  };

  [[nodiscard]] std::chrono::nanoseconds transfer_time(const BlockExchange& block) const {
    constexpr double kBitsPerByte = 8;
    constexpr double kNsPerS = 1e9;
    const double incoming_bytes =
        static_cast<double>(incoming_.size() - 1) * static_cast<double>(block.piece_bytes());
    const double wire_ns = incoming_bytes * kBitsPerByte / link_.bits_per_s * kNsPerS;
    // A slow link and a large block exceed what nanoseconds can count; no run lasts that long.
    constexpr double kLongestNs = 1e18;
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(std::min(link_.latency_us * planner::kNsPerUs + wire_ns, kLongestNs)));
  }

  LinkSpec link_;
  std::vector<Incoming> incoming_; ///< by rank
};

} // namespace

std::unique_ptr<Transport> make_emulated_transport(const LinkSpec& link, int world_size) {
  return std::make_unique<EmulatedTransport>(link, world_size);
}

} // namespace mc2::executor::host
