#pragma once

#include <cstdint>

#include "made_up_lanes.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/refine.hpp"

namespace mc2::cli {

/// A made-up NPU that mc2 knows only from matmuls and collectives alone. What cutting costs there has forms that mc2's
/// model does not have: blocks expand by powers of their length, slow-downs depend on the block, and a block is handed
/// over after a while that neither lane works.
class SimulatedNpu {
 public:
  explicit SimulatedNpu(std::uint64_t seed);

  [[nodiscard]] const planner::OpSpec& op() const noexcept { return op_; }
  [[nodiscard]] const planner::PlanOptions& options() const noexcept { return options_; }

  /// Uncut and per-block timings of both lanes alone, five of each.
  [[nodiscard]] planner::Profile samples();
  /// The median of kRunCount runs, with its standard error; of serial beside it, and where blocks are timed of all
  /// blocks of a lane.
  [[nodiscard]] profiler::MeasuredCut measure(const planner::Cut& cut, bool times_blocks);

  [[nodiscard]] double serial_us() const { return lanes_.time_us(true, op_.m) + lanes_.time_us(false, op_.m); }
  [[nodiscard]] double fused_us(const planner::Cut& cut) const { return run(cut).makespan_us; }
  /// Loss against the best of all legal cuts: exact, by enumeration.
  [[nodiscard]] double regret(const planner::Cut& cut) const { return fused_us(cut) / best_us_ - 1; }

  static constexpr int kRunCount = 100;

 private:
  /// What cutting costs a lane.
  struct Hidden {
    double expansion = 0, expansion_power = 1;   ///< of short blocks
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
