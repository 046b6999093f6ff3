#pragma once

#include <cstdint>

#include "made_up_lanes.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/refine.hpp"

namespace mc2::cli {

/// A made-up NPU that mc2 knows only from matmuls and collectives timed alone. Its costs of cutting have forms that
/// mc2's model lacks: the additional time of a block is a power of its length, slow-downs depend on the block's length,
/// and a block reaches the second lane after a delay in which neither lane works on it.
class SimulatedNpu {
 public:
  explicit SimulatedNpu(std::uint64_t seed);

  [[nodiscard]] const planner::OpSpec& op() const noexcept { return op_; }
  [[nodiscard]] const planner::PlanOptions& options() const noexcept { return options_; }

  /// Timings of both lanes alone, uncut and per block, five of each.
  [[nodiscard]] planner::Profile samples();
  /// Measures a cut: the median of kRunCount runs with its standard error, serial beside it and, with `times_blocks`,
  /// the sums over each lane's blocks.
  [[nodiscard]] planner::MeasuredCut measure(const planner::Cut& cut, bool times_blocks);

  [[nodiscard]] double serial_us() const { return lanes_.time_us(true, op_.m) + lanes_.time_us(false, op_.m); }
  [[nodiscard]] double fused_us(const planner::Cut& cut) const { return run(cut).makespan_us; }
  /// Time of a cut / that of the best legal cut - 1. Exact, by enumeration.
  [[nodiscard]] double regret(const planner::Cut& cut) const { return fused_us(cut) / best_us_ - 1; }

  static constexpr int kRunCount = 100;

 private:
  /// Costs of cutting for one lane, which mc2 does not know.
  struct Hidden {
    double expansion = 0, expansion_power = 1;   ///< additional time of short blocks
    double contention = 0, contention_power = 0; ///< slow-down - 1 of a usual block while the other lane is busy
    double fixed_us = 0;
  };

  [[nodiscard]] planner::LaneTimes run(const planner::Cut& cut) const;
  [[nodiscard]] double block_us(bool is_compute, std::int64_t rows) const;
  [[nodiscard]] double slowdown(bool is_compute, std::int64_t rows) const;
  [[nodiscard]] Hidden hidden();
  [[nodiscard]] double median_us(double us);

  Draw draw_;
  planner::OpSpec op_;
  planner::PlanOptions options_;
  MadeUpLanes lanes_;
  Hidden compute_, communication_;
  double handover_us_ = 0;
  double noise_ = 0; ///< relative standard deviation of one run
  double best_us_ = 0;
};

} // namespace mc2::cli
