#include "backends/host/virtual_device.hpp"

#include <algorithm>
#include <cmath>

namespace mc2::executor::host {
namespace {

class VirtualDevice final : public lanes::ComputeDevice {
 public:
  VirtualDevice(int rank, const VirtualCompute& model) : rank_(rank), model_(model) {}

  void begin_run(lanes::Clock::time_point start) noexcept override { free_at_ = start; }

  lanes::ComputeTimes multiply(const lanes::MatmulWork& work, lanes::Clock::time_point ready,
                               const lanes::RunControl& control) override {
    constexpr double kLongestNs = 1e18; // longer than any deadline, and 64-bit nanoseconds can count it
    const double modelled_ns = std::min(model_.block_us(work.flop_count) * planner::kNsPerUs, kLongestNs);
    const auto start = std::max(free_at_, ready);
    if (work.runs.empty()) return {start, start};
    free_at_ = start + std::chrono::nanoseconds(std::llround(modelled_ns));
    control.sleep_until(free_at_, rank_);
    return {start, free_at_};
  }

 private:
  int rank_;
  VirtualCompute model_;
  lanes::Clock::time_point free_at_;
};

} // namespace

std::unique_ptr<lanes::ComputeDevice> make_virtual_device(int rank, const VirtualCompute& model) {
  return std::make_unique<VirtualDevice>(rank, model);
}

} // namespace mc2::executor::host
