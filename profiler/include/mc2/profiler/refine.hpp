#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// A cut as somebody's own executor ran it. Times in us; all but the first are 0 where they were not measured.
struct MeasuredCut {
  planner::Variant variant;
  planner::Cut cut;
  double fused_us = 0;                                        ///< median
  double serial_us = 0, compute_us = 0, communication_us = 0; ///< uncut
  double relative_error = 0; ///< standard error of fused_us; 0 where it is not known, which counts as kUsualError
  int run_count = 1;
  double compute_blocks_us = 0, communication_blocks_us = 0; ///< its blocks together, as they ran beside the others
};

inline constexpr double kUsualError = 0.01;
/// Different ones that one refinement learns from.
inline constexpr std::size_t kMaxMeasuredCuts = 256;

struct RefineSettings {
  planner::PlanOptions plan; ///< the family of cuts: alignment, shortest block, most blocks
  int next_count = 3;        ///< cuts to run next, at most
};

/// What is believed of a cut. The interval is of 90 %.
struct CutBelief {
  planner::Variant variant;
  planner::Cut cut;
  double profiled_us = 0; ///< as the model predicted before any cut was measured
  double foretold_us = 0; ///< as it was predicted from the cuts that were measured before this one; 0 where it was not
  double us = 0, low_us = 0, high_us = 0;
  double measured_us = 0;   ///< 0 where it was not
  bool is_believed = true;  ///< false for a measurement that the others, or undisturbed lanes, contradict: set aside
  double expected_gain = 0; ///< over the best so far, relative, if it is run and kept only where it is better
};

/// One thing that no lane shows alone, before and after.
struct LearnedFactor {
  enum class What : std::uint8_t { ComputeSlowdown, CommunicationSlowdown, BlockOverhead };
  What what = What::ComputeSlowdown;
  double before = 1, before_low = 1, before_high = 1;
  double after = 1, after_low = 1, after_high = 1;
  bool is_determined = false; ///< whether the cuts say more of it than was assumed
};

/// "compute_slowdown", "communication_slowdown" or "block_overhead_us".
[[nodiscard]] std::string_view to_string(LearnedFactor::What what) noexcept;

/// Where the time of a measured cut goes, told from one lane; sums to its measured time.
struct MeasuredAccount {
  planner::Lane lane = planner::Lane::Compute;
  double uncut_us = 0;       ///< that lane's part of serial
  double small_block_us = 0; ///< what its blocks cost beyond that, by the curve
  double overhead_us = 0;    ///< fixed costs of its blocks
  double contention_us = 0;  ///< slowed by the other lane
  double waiting_us = 0;     ///< for the other lane: first block, last block, gaps
  double unexplained_us = 0; ///< measured minus all of that
  double blocks_us = 0;      ///< all of its blocks: as timed, or else by the model
  bool is_timed = false;     ///< whether blocks_us was; then what is unexplained is of them, else of the whole

  /// How much longer its blocks take than the whole at once.
  [[nodiscard]] double expansion() const noexcept { return blocks_us / uncut_us; }
};

struct Refinement {
  planner::CostModel model; ///< recalibrated; its anchored interval is that of a further cut
  std::string text;         ///< of the recalibration, one sentence
  std::vector<LearnedFactor> factors;
  double serial_us = 0;
  bool is_serial_measured = false;
  std::vector<CutBelief> measured;       ///< one of each cut, in the order in which they were given
  planner::Plan plan;                    ///< what to use now: the best cut that was measured, or "do not cut"
  std::vector<MeasuredAccount> accounts; ///< of that cut, compute first; empty where it is "do not cut"
  /// To run next: the one that teaches most first, then what teaches most beside it. Empty: settled.
  std::vector<CutBelief> next;
  double noise = 0;         ///< relative standard error of the best cut's time
  double expected_gain = 0; ///< of the cut that teaches most

  /// Whether any cut that was measured is believed; else the plan says nothing of cuts.
  [[nodiscard]] bool has_usable_cut() const { return std::ranges::any_of(measured, &CutBelief::is_believed); }
};

/// Learns from cuts that were run somewhere else. What cannot be seen in either lane alone - slow-downs and a fixed
/// cost per block - is fitted as recalibrate() does; the times of a cut's own blocks, where they are known, tell the
/// lanes apart. What is left is a Gaussian process over cuts around that
/// prediction: three linear terms for those factors, one for each lane's curve at each block length (of its
/// cross-validated error), and a smooth one over number and shape of the blocks. A cut that all others together
/// contradict by six deviations and a factor of 1.2, or that is faster than undisturbed lanes allow by a tenth, is set
/// aside: it teaches nothing and is not the plan. Cuts to run next are those of largest
/// expected improvement (Jones, Schonlau and Welch, J. Global Optimization 13, 1998), each chosen as if those before it
/// had come out as expected. Settled: none is expected to gain a twentieth of what a measurement is wrong by.
/// docs/cost_model.md §6.
/// @param measured  may be empty: then `next` is where to begin. What does not overlap counts as a measurement of
///                  serial
/// Errors: InvalidSpec (settings, too many cuts, as planner::validate_measured_cut), CannotFit (a time that is not
/// positive and finite), and as planner::predict_cut.
[[nodiscard]] Result<Refinement> refine(const planner::OpSpec& op, const planner::CostModel& model,
                                        std::span<const MeasuredCut> measured, const RefineSettings& settings = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
