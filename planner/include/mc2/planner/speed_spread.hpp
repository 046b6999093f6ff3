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

/// Measured over predicted, for one run some time after the model was profiled. A ratio that is not known is 0.
struct SpeedRatio {
  double compute = 0, communication = 0; ///< ratios of the uncut parts' times
  double overlap = 0;                    ///< ratio of fused / serial, for a plan that overlaps
  double serial_us = 0;                  ///< not a ratio: the time that the uncut parts took together
  double makespan = 0;                   ///< ratio of the time of the plan that ran
  std::string at = {};                   ///< when it ran: UTC, ISO 8601
  bool operator==(const SpeedRatio&) const = default;
};

/// Times of an operator's uncut parts in an earlier run, each alone.
struct UncutRun {
  OpSpec op;
  Variant variant;
  double compute_us = 0, communication_us = 0;
  std::string at = {}; ///< when it ran: UTC, ISO 8601
  bool operator==(const UncutRun&) const = default;
};

/// What is known of a machine's speed from the runs that were kept, newest first.
struct SpeedRecord {
  std::vector<SpeedRatio> ratios; ///< of any operator
  std::vector<UncutRun> runs;     ///< of the operator that is asked about, at any length of the cut axis
};

/// Factors on the times that a model predicts for an operator's lanes, derived from later runs.
struct SpeedLevel {
  double compute = 1, communication = 1;
  int run_count = 0; ///< number of runs that the factors come from
  bool operator==(const SpeedLevel&) const = default;
};

/// How much longer an operator's uncut parts took in a run than a model predicts, as natural logarithms.
struct RunSpeed {
  double log_compute = 0, log_communication = 0;
  double length = 1; ///< of the run's cut axis
};

/// The speeds of runs in the same order. Left out are runs of other operators and of variants that the model does not
/// have.
/// @param model     a model before at_length(), which is applied for the length of each run
/// @param messages  passed to at_length()
[[nodiscard]] std::vector<RunSpeed> run_speeds(const CostModel& model, const MessageTimes& messages,
                                               std::span<const UncutRun> runs);

/// Estimates the lanes' speed level from later runs, because a profile is taken within seconds, at the speed of that
/// moment. A factor is the weighted geometric mean of the runs' ratios of measured to predicted times. A run weighs
/// half as much as the next newer one, times the ratio of the shorter to the longer cut axis (the run's and op's). The
/// profile itself, with a ratio of 1, weighs half as much as the newest run at the same length. Source:
/// docs/cost_model.md §14.
/// @param runs  run_speeds() of the model, newest first
/// @param op    an operator that the model answers for
[[nodiscard]] SpeedLevel speed_level(std::span<const RunSpeed> runs, const OpSpec& op);

/// The model with the times of every measured curve, and of the serial run, multiplied by their lane's level.
[[nodiscard]] CostModel with_level(CostModel model, const SpeedLevel& level);

/// Half-widths of 90 % intervals, from how far off earlier predictions on the machine were. Each is a quantile of the
/// absolute log ratios. The quantile's level adapts so that nine of ten ratios were covered by the ratios known before
/// them, whatever their distribution and however the machine changes (adaptive conformal inference: Gibbs and Candes,
/// NeurIPS 2021). Ten values of a normal distribution with the deviation kPriorSpeedDeviation, or
/// kPriorOverlapDeviation, are added as a prior. Source: docs/cost_model.md §14.
/// @param ratios     newest first
/// @param serial_us  serial time of the operator that is asked about. Only runs with a serial time within a factor of
///                   kSpreadReach count, because a short run's start is not the machine's speed; 0: all runs count
[[nodiscard]] SpeedSpread speed_spread(std::span<const SpeedRatio> ratios, double serial_us = 0);

inline constexpr double kSpreadReach = 4;

inline constexpr double kPriorSpeedDeviation = 0.03;
inline constexpr double kPriorOverlapDeviation = 0.01; ///< what disturbs one lane disturbs serial, too

/// The model with intervals that hold at any later time. It stores the spread, from which the intervals of whole runs
/// follow, and joins the interval of each measured curve with its lane's spread, as squares. CostCurve::curve_interval
/// stays, because a change of speed does not bend the curve.
/// @param model  a model without a spread
[[nodiscard]] CostModel with_spread(CostModel model, const SpeedSpread& spread);

/// Present times of an operator's lanes with one variant, each alone.
struct TimedLanes {
  std::string variant;                                     ///< Variant::text()
  double compute_us = 0, communication_us = 0;             ///< medians
  double compute_interval = 0, communication_interval = 0; ///< half-widths of their 90 % intervals, relative
  Cut cut = {};                                            ///< the blocks that were run; none: uncut
};

/// The model at the present speed of the machine: each variant's curves are scaled so that the blocks that were run
/// take the timed values. Variants that were not timed are left out. The interval of a curve is that of its time,
/// joined with curve_interval() unless the model has an anchored interval, which widens its plans instead. A start
/// keeps its own: a lane that runs alone does not tell how much of it a run of both takes. Errors: NotFound if no
/// variant of the model was timed; InvalidSpec for a time that is not positive and finite.
[[nodiscard]] Result<CostModel> at_speed(const CostModel& model, const OpSpec& op, std::span<const TimedLanes> times);

/// Half-widths of 90 % intervals of a plan's makespan at known times of the uncut parts, relative. 0 for a model that
/// never raced.
struct RaceIntervals {
  double anchored = 0; ///< CostModel::anchored_interval
  double open = 0;     ///< what the open steps of the plan's variant do to its cut
  [[nodiscard]] double joined() const noexcept;
};
[[nodiscard]] RaceIntervals race_intervals(const CostModel& model, const Plan& plan);

/// The plan with the intervals of its makespan and of its benefit joined, as squares, with these. The benefit's has the
/// anchored one from the start; the open steps change the makespan, but not serial.
[[nodiscard]] Plan with_race_intervals(const RaceIntervals& intervals, Plan plan);

} // namespace mc2::planner

#pragma GCC visibility pop
