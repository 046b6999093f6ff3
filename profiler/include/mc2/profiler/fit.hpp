#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// One size: the statistic of its samples that is fitted.
struct FitPoint {
  double x = 0;               ///< rows or bytes
  double time_us = 0;         ///< low quantile of the samples
  double relative_spread = 0; ///< robust standard deviation of the samples / time_us; 0 when unknown
  int sample_count = 1;
};

/// Sizes and times that a curve is fitted to lie in (0, limit]: beyond, squares of them leave the range of a double.
inline constexpr double kMaxFitSize = 1e18;
inline constexpr double kMaxFitTimeUs = 1e15;

struct FitOptions {
  double quantile = 0.25;             ///< of each size's samples
  double robust_scale = 0.05;         ///< relative residual beyond which the loss grows linearly (Huber)
  int min_point_count = 3;            ///< distinct sizes, at least 3; richer families need 6 to 12
  double cross_validation_gain = 0.8; ///< a richer family must have at most this fraction of the simpler one's error

  /// Errors: InvalidSpec naming the option: quantile in [0, 1], robust_scale > 0, min_point_count >= 3,
  /// cross_validation_gain in (0, 1].
  [[nodiscard]] Result<void> validate() const;
};

/// Fits every family that the points can carry and keeps the one that predicts best, the simpler one unless the
/// richer is clearly better. Points of equal size are merged (median); beyond 128 distinct sizes neighbours are.
///   residual  r_i = (t(x_i) - t_i) / t_i under Huber's loss of scale robust_scale; parameters are bounded so that
///             the curve is positive and does not fall; the knot is a parameter.
///   start     least trimmed exact fits of few points, then weighted least squares over the points within
///             20 robust_scale of it (Rousseeuw and Leroy, Robust Regression and Outlier Detection, 1987).
///   outliers  a size that contradicts the others (faster than a smaller one, or dearer per unit, by more than 1.25x)
///             or that no family explains is left out, at most one in five, and quality.reason says so.
///   families  affine, staircase, piecewise, segments with 2, 3 or 4 knots, interpolated; docs/cost_model.md §2.
///   choice    relative rms over interior sizes left out in turn (sizes that nearly coincide together), and over both
///             ends as fitted with the mean leverage p/n (quality.cross_validated_rms). The simplest family that no
///             richer one clearly beats: a richer one needs at most cross_validation_gain of the simpler one's error,
///             and the simpler one's above 1.5 standard errors of the points (1.36 relative_spread /
///             sqrt(sample_count), median). Against affine it needs half the error, or a paired t test of the sizes'
///             errors at 1 %. Interpolation must beat every other family, at 0.75 of that gain.
///             quality.reason names every family tried with its error, and why this one.
///   interval  relative_interval = t_0.95(n-p) sqrt(max(s^2 (1 + p/n), cv^2) + spread^2), s^2 = sum r_i^2 / (n-p),
///             n sizes, p parameters (0 for interpolation, which has no residuals and rests on cv), cv the
///             cross-validated rms, spread the median relative_spread. Prediction interval of linear regression with
///             the mean leverage p/n (Draper and Smith, Applied Regression Analysis, 1998, ch. 3), widened by what a
///             single timing varies around its size's statistic. At most planner::kMaxCurveInterval.
/// A fit to 30 sizes takes about 0.2 s, to 128 about 0.8 s.
/// Errors: InvalidSpec (options). CannotFit naming the reason: too few distinct sizes, a size or time that is not
/// finite, not positive or beyond its limit, times that fall with size beyond their noise.
[[nodiscard]] Result<planner::CostCurve> fit_curve(std::span<const FitPoint> points, planner::CurveAxis axis,
                                                   const FitOptions& options = {});

/// The affine curve through one or two sizes, for an operator whose cut axis has no more lengths than that. One size
/// says nothing of the fixed cost, so its curve is proportional. Its interval is the spread of single timings.
/// Errors: as fit_curve; CannotFit for more than two distinct sizes.
[[nodiscard]] Result<planner::CostCurve> meet_points(std::span<const FitPoint> points, planner::CurveAxis axis);

/// How a note ends that says what contention is assumed of lanes that nobody timed side by side.
inline constexpr std::string_view kUntilACutIsMeasured = "; a measured cut replaces it (mc2 refine)";

/// What fitting a profile found, for people.
struct FitSummary {
  planner::CostModel model;
  std::vector<std::string> notes; ///< outliers left out, sizes with few samples, factors and how they were found
};

/// Builds CostMM (over rows) and CostComm (over message_bytes) and the two slow-down factors of every variant in the
/// profile, from samples that are not marked as outliers.
///   time of a size  `quantile` of its samples taken alone, each divided by the drift factor of its round
///                   (drift.hpp; factors of one component, all sizes and variants), at the level of the rounds'
///                   own `quantile`.
///   slow-down       median over sizes and rounds of co-run / alone of the same size and round, at least 1; 1 with a
///                   note where there is no such pair.
/// An operator whose cut axis has one or two rows gets curves from meet_points.
/// fixed_us stays 0, and run_us is planner::kUsualRunUs where a variant has it: both are recalibrated from measured
/// plans. A variant is what planner::parse_variant makes of its samples' text. Errors: InvalidSpec (operator, options),
/// CannotFit naming variant and component.
[[nodiscard]] Result<FitSummary> fit_cost_model(const planner::Profile& profile, const FitOptions& options = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
