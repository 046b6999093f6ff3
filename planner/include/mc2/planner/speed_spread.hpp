#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/transfer.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// What was measured over what a model had predicted, some time after it was profiled. 0 where it is not known.
struct SpeedRatio {
  double compute = 0, communication = 0; ///< times of the uncut parts
  double overlap = 0;                    ///< fused / serial of a plan that overlaps
  double serial_us = 0;                  ///< what the uncut parts took together
  double makespan = 0;                   ///< time of the plan that ran
};

/// What the uncut parts of an operator took in an earlier run, each alone.
struct UncutRun {
  OpSpec op;
  Variant variant;
  double compute_us = 0, communication_us = 0;
};

/// What is known of a machine's speed from the runs that were kept, newest first.
struct SpeedRecord {
  std::vector<SpeedRatio> ratios; ///< of any operator
  std::vector<UncutRun> runs;     ///< of the operator that is asked about, at any length of the cut axis
};

/// The speed of an operator's lanes over what its model says: factors on times.
struct SpeedLevel {
  double compute = 1, communication = 1;
  int run_count = 0; ///< that it is from
  bool operator==(const SpeedLevel&) const = default;
};

/// A profile is taken within seconds, at the speed of that moment; later runs of the operator tell of others. The mean
/// of their log ratios to the model, where a run counts half as much as the next newer one, and as much less as its cut
/// axis is longer or shorter than the one that is asked about; the profile itself counts half as much as the newest run
/// at the same length. Runs of other operators and of variants that the model does not know are left out. Source:
/// docs/cost_model.md §14.
/// @param model     without at_length(), which each run has its own of
/// @param messages  for that
/// @param op        one that the model answers for
[[nodiscard]] SpeedLevel speed_level(const CostModel& model, const MessageTimes& messages, const OpSpec& op,
                                     std::span<const UncutRun> runs);

/// The model with every measured curve's times multiplied by its lane's level.
[[nodiscard]] CostModel with_level(CostModel model, const SpeedLevel& level);

/// Of the machine's earlier predictions, those ratios': a quantile of their absolute log ratios, at a level that adapts
/// so that nine of ten of them were covered by what was known before, whatever their distribution and however the
/// machine changes (adaptive conformal inference: Gibbs and Candes, NeurIPS 2021). A prior stands in for the ratios
/// that are not there yet: ten of a normal distribution with the deviation kPriorSpeedDeviation, or
/// kPriorOverlapDeviation. Source: docs/cost_model.md §14.
/// @param ratios     newest first
/// @param serial_us  what the operator that is asked about takes: only runs within kSpreadReach of it tell of it, as a
///                   short run's start is not the machine's speed; 0: all do
[[nodiscard]] SpeedSpread speed_spread(std::span<const SpeedRatio> ratios, double serial_us = 0);

inline constexpr double kSpreadReach = 4;

inline constexpr double kPriorSpeedDeviation = 0.03;
inline constexpr double kPriorOverlapDeviation = 0.01; ///< what disturbs one lane disturbs serial, too

/// The model as it holds whenever it is asked: it has the spread, which the intervals of whole runs follow from, and
/// the interval of each measured curve is joined with its lane's, as squares. What a curve leaves open
/// (CostCurve::curve_interval) stays: a change of speed does not bend it.
/// @param model  without a spread
[[nodiscard]] CostModel with_spread(CostModel model, const SpeedSpread& spread);

/// What the uncut parts of an operator take now, with a variant, each alone.
struct UncutTimes {
  std::string variant;                                     ///< Variant::text()
  double compute_us = 0, communication_us = 0;             ///< medians
  double compute_interval = 0, communication_interval = 0; ///< half-widths of their 90 % intervals, relative
};

/// The model at the speed that the machine has now: each variant's curves scaled so that its uncut parts take what was
/// timed, without variants that were not. Intervals are those of the times, joined with what the curves leave open -
/// or, of a model with an anchored interval, with nothing: its plans are widened by that.
/// Errors: NotFound where none was timed; InvalidSpec for a time that is not positive and finite.
[[nodiscard]] Result<CostModel> at_speed(const CostModel& model, const OpSpec& op, std::span<const UncutTimes> times);

/// The plan with its makespan's interval joined with another one, relative to the makespan, as squares.
[[nodiscard]] Plan with_wider_makespan(double relative_interval, Plan plan);

} // namespace mc2::planner

#pragma GCC visibility pop
