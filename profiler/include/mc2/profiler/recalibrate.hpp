#pragma once

#include <span>
#include <string>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// A measured cut is odd when the others contradict the logarithm of its time by more than both: so much, and so many
/// standard deviations.
inline constexpr double kOddLogRatio = 0.2, kOddDeviations = 6;

struct RecalibrateOptions {
  /// Expected relative error of a profiled slow-down: standard deviation of the prior of its logarithm.
  double slowdown_spread = 0.1;
  /// Expected error of the profiled fixed cost per block, relative to the mean block's share of the fused time.
  double fixed_spread = 0.02;
  /// Expected error of planner::VariantCost::run_us.
  double run_spread_us = 5;
  /// Expected relative error of a measured fused time.
  double measurement_spread = 0.01;
};

/// The weight of the expected measurement spread in anchored_interval, as a number of raced cuts.
inline constexpr int kPriorObservationCount = 4;

struct Recalibration {
  planner::CostModel model;
  double error_before = 0; ///< relative rms of predicted against measured fused times, of cuts that are not set aside
  double error_after = 0;
  std::string text; ///< one sentence; it names the cuts that were set aside
};

/// Adjusts the parameters that neither lane shows alone, so that the anchored model predicts the measured fused times
/// and, where they were timed, the sums over each lane's blocks.
///   parameters  both slow-downs, the fixed cost per block on the second lane and, for variants with
///               planner::has_run_cost(), the time of a run besides its blocks
///   method      maximum a posteriori with Ceres: minimises the squared log residuals plus the squared deviations of
///               the parameters from their profiled values (log deviations for slow-downs), each divided by its spread.
///               The spread of a block sum is widened by the error of its lane's curve. Slow-downs are at least
///               VariantCost::least_slowdown(), costs at least 0.
///   outliers    of a variant's three or more cuts, at most a third are set aside: those that a fit with a Cauchy loss
///               misses by a factor of 1.2 and by six deviations, or more. A deviation is at least 3 %. The parameters
///               are then those of the other cuts.
///   interval    the model's anchored_interval is the 90 % predictive interval of a cut like those that were raced, at
///               most planner::kMaxCurveInterval. The residuals are normal; their variance has a scaled inverse
///               chi-square prior worth kPriorObservationCount residuals of measurement_spread (Gelman et al., Bayesian
///               Data Analysis, 2013, §2.6). The degrees of freedom are less by the effective number of parameters
///               that the races determined (Hastie and Tibshirani, Generalized Additive Models, 1990, §3.5). The
///               variants' open_steps are what the races left open of the parameters.
/// @param observations  measured cuts, with the times of their uncut parts moments before and after
/// docs/cost_model.md §6. Errors: CannotFit (no observations, or a time that is not positive and finite), UnknownName
/// (a variant that the model does not know), and as CostModel::validate and planner::predict_cut.
[[nodiscard]] Result<Recalibration> recalibrate(const planner::CostModel& model,
                                                std::span<const planner::MeasuredCut> observations,
                                                const RecalibrateOptions& options = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
