#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/profile.hpp"

namespace mc2::profiler {

/// One size: the statistic of its samples that is fitted.
struct FitPoint {
  double x = 0;               ///< rows or bytes
  double time_us = 0;         ///< low quantile of the samples
  double relative_spread = 0; ///< robust standard deviation of the samples / time_us; 0 when unknown
  int sample_count = 1;
};

struct FitOptions {
  double quantile = 0.25;       ///< of each size's samples
  double robust_scale = 0.05;   ///< relative residual beyond which the loss grows linearly (Huber)
  int min_point_count = 3;      ///< distinct sizes; the piecewise family needs 6
  double cross_validation_gain = 0.8; ///< a richer family must have at most this fraction of the simpler one's error
};

/// Fits every family that the points can carry with Ceres (relative residuals, Huber loss, knots as parameters) and
/// keeps the one with the lowest cross-validated relative error, the simpler one unless the richer is clearly better.
/// Errors: CannotFit naming the reason: too few distinct sizes, a non-finite or non-positive time or size, times that
/// do not grow with size.
[[nodiscard]] planner::Result<planner::CostCurve> fit_curve(std::span<const FitPoint> points, planner::CurveAxis axis,
                                                            const FitOptions& options = {});

/// What fitting a profile found, for people.
struct FitSummary {
  planner::CostModel model;
  std::vector<std::string> notes; ///< outliers left out, sizes with few samples, factors and how they were found
};

/// Builds CostMM and CostComm and the two slow-down factors of every variant in the profile. The factors are medians
/// of paired ratios: co-run over alone, same size, same round.
/// Errors: InvalidSpec (operator), CannotFit naming variant and component.
[[nodiscard]] planner::Result<FitSummary> fit_cost_model(const planner::Profile& profile,
                                                         const FitOptions& options = {});

} // namespace mc2::profiler
