#pragma once

#include <span>
#include <string>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// One cut as it ran, beside the uncut parts as they ran moments before and after.
struct RaceObservation {
  planner::Variant variant;
  planner::Cut cut;
  double fused_us = 0;
  double compute_us = 0;                                     ///< uncut matmul alone
  double communication_us = 0;                               ///< uncut collective alone
  double compute_blocks_us = 0, communication_blocks_us = 0; ///< the cut's own blocks together; 0 where not timed
};

struct RecalibrateOptions {
  /// How far a slow-down factor may be expected to be off, relative: the width of the prior around the profiled value.
  double slowdown_spread = 0.1;
  /// Expected size of the fixed cost of a block relative to the block's share of the fused time.
  double fixed_spread = 0.02;
  /// How far planner::VariantCost::run_us may be expected to be off.
  double run_spread_us = 5;
  /// Expected relative error of a measured fused time.
  double measurement_spread = 0.01;
};

/// How many raced cuts the expected measurement spread counts for beside the ones that were raced.
inline constexpr int kPriorObservationCount = 4;

struct Recalibration {
  planner::CostModel model;
  double error_before = 0; ///< relative rms of predicted against measured fused times
  double error_after = 0;
  std::string text; ///< one sentence
};

/// Adjusts what cannot be seen in either lane alone - both slow-down factors, the fixed cost per block on the second
/// lane and, of variants with planner::has_run_cost(), what a run takes besides its blocks - so that the anchored model
/// predicts the fused times that were measured, and those of each lane's blocks where they were timed, which their
/// curve's own error loosens. Maximum a posteriori: squared log residuals plus squared log deviations of the factors
/// from their profiled values, each over its spread; bounded to factors >= VariantCost::least_slowdown() and fixed >=
/// 0; solved with Ceres. The model's anchored_interval is the 90 % predictive interval of a further cut: the residuals
/// are normal, and their variance has a scaled inverse chi-square prior worth kPriorObservationCount residuals of
/// measurement_spread (Gelman et al., Bayesian Data Analysis, 2013, §2.6), at most planner::kMaxCurveInterval.
/// docs/cost_model.md §6. Errors: CannotFit (no observations, or a time that is not positive and finite), and as
/// planner::predict_cut.
[[nodiscard]] Result<Recalibration> recalibrate(const planner::CostModel& model,
                                                std::span<const RaceObservation> observations,
                                                const RecalibrateOptions& options = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
