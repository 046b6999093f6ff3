#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/statistics.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// One size and the statistic of its samples that is fitted.
struct FitPoint {
  double x = 0;               ///< rows or bytes
  double time_us = 0;         ///< low quantile of the samples
  double relative_spread = 0; ///< robust standard deviation of the samples / time_us; 0 when unknown
  int sample_count = 1;
};

/// Limits of the sizes and times that a curve can be fitted to. The squares of larger ones may leave the range of a
/// double.
inline constexpr double kMaxFitSize = 1e18;
inline constexpr double kMaxFitTimeUs = 1e15;

struct FitOptions {
  double quantile = kLowQuantile; ///< the quantile of a size's samples that is fitted
  double robust_scale = 0.05;     ///< relative residual beyond which the loss grows linearly (Huber)

  /// Errors: InvalidSpec naming the option: quantile in [0, 1], robust_scale > 0.
  [[nodiscard]] Result<void> validate() const;
};

/// Fits every family that has enough points, of which there are at least three, and keeps the one that predicts best,
/// but a simpler one unless a richer one is clearly better. Points of equal size are merged into their median; beyond
/// 128 distinct sizes, neighbours are merged, too.
///   residual  r_i = (t(x_i) - t_i) / t_i under Huber's loss of scale robust_scale. Parameters are bounded so that the
///             curve is positive and does not fall. The knot is a parameter.
///   start     exact fits of few points; the best of them by capped errors, then relative least squares over the points
///             within 20 robust_scale of it (Rousseeuw and Leroy, Robust Regression and Outlier Detection, 1987).
///   outliers  a size is left out when no family explains it, or when it contradicts the others: it is faster than a
///             smaller one or costs more per unit, by more than 1.25x. At most one size in five; quality.reason names
///             them.
///   families  affine, staircase, piecewise, segments with 2, 3 or 4 knots, interpolated; docs/cost_model.md §2.
///   error     quality.cross_validated_rms: the relative rms over interior sizes, each left out in turn (nearly equal
///             sizes together), and over both end sizes as fitted, corrected for the mean leverage p/n.
///   choice    the simplest family that no richer one clearly beats. A richer family clearly beats a simpler one when
///             its error is at most 0.8 of the simpler one's, and the simpler one's error is
///             above 1.5 standard errors of the points (median of 1.36 relative_spread / sqrt(sample_count)). To beat
///             affine it also needs half the error, or a paired t test of the sizes' errors at 1 %. Interpolation must
///             beat every other family with 0.6 of its error. quality.reason names every family tried with
///             its error, and why the chosen one won.
///   interval  relative_interval = t_0.95(n-p) sqrt(max(s^2 (1 + p/n), cv^2) + spread^2), s^2 = sum r_i^2 / (n-p),
///             n sizes, p parameters (0 for interpolation, which has no residuals and relies on cv), cv the
///             cross-validated rms, spread the median relative_spread. This is the prediction interval of linear
///             regression with the mean leverage p/n (Draper and Smith, Applied Regression Analysis, 1998, ch. 3),
///             widened by the spread of single timings around their size's statistic. At most
///             planner::kMaxCurveInterval.
/// A fit to 30 sizes takes about 0.2 s, to 128 about 0.8 s.
/// Errors: InvalidSpec (options). CannotFit with the reason: too few distinct sizes, a size or time that is not finite,
/// not positive or beyond its limit, times that fall with size beyond their noise.
[[nodiscard]] Result<planner::CostCurve> fit_curve(std::span<const FitPoint> points, planner::CurveAxis axis,
                                                   const FitOptions& options = {});

/// The affine curve through one or two sizes, for an operator whose cut axis has no more lengths than that. One size
/// does not determine the fixed cost, so its curve is proportional to size. Where the line through two sizes would fall
/// or start below 0, the curve is constant or proportional and passes through the larger size. The interval follows
/// from the spread of single timings alone.
/// Errors: as fit_curve; CannotFit for more than two distinct sizes.
[[nodiscard]] Result<planner::CostCurve> meet_points(std::span<const FitPoint> points, planner::CurveAxis axis);

/// The end of a note about a contention that is assumed because the lanes were not timed side by side.
inline constexpr std::string_view kUntilACutIsMeasured = "; a measured cut replaces it (mc2 refine)";

/// A fitted model with notes for people.
struct FitSummary {
  planner::CostModel model;
  std::vector<std::string> notes; ///< outliers left out, sizes with few samples, factors and how they were found
};

/// Builds CostMM (over rows) and CostComm (over message_bytes) and the two slow-down factors of every variant in the
/// profile, from samples that are not marked as outliers.
///   time of a size  `quantile` of its alone samples. Each is divided by the drift factor of its round (drift.hpp; the
///                   factors of a component come from all sizes and variants) and multiplied by `quantile` of the
///                   rounds' factors.
///   slow-down       median of co-run / alone over pairs of the same size and round. Values below 1 count as 1, unless
///                   the ratio of a collective is surely lower because the other lane does a part of its work. Without
///                   pairs: 1, or planner::kPublishedContention for an imported profile, with a note.
/// An operator with one or two block lengths gets curves from meet_points. So does an operator cut in columns whose
/// samples are all of the uncut axis.
/// fixed_us stays 0, and run_us is planner::kUsualRunUs for variants with planner::has_run_cost(): both are
/// recalibrated from measured plans. planner::parse_variant reads a variant from its samples' text. Errors: InvalidSpec
/// (operator, options), CannotFit naming variant and component, or (device) if an imported profile lacks one of them.
[[nodiscard]] Result<FitSummary> fit_cost_model(const planner::Profile& profile, const FitOptions& options = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
