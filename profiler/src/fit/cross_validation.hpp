#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "fit/family.hpp"
#include "mc2/planner/cost_curve.hpp"
#include "mc2/profiler/fit.hpp"

namespace mc2::profiler::fit {

/// (fitted - measured) / measured, one per point.
[[nodiscard]] std::vector<double> relative_residuals(const planner::CostCurve& curve, std::span<const FitPoint> points);

/// 95 % quantile of Student's t: what a 90 % interval reaches to on either side. Degrees below 1 count as 1.
[[nodiscard]] double student_t95(int degrees) noexcept;

/// sqrt of the mean square; 0 for none.
[[nodiscard]] double root_mean_square(std::span<const double> values) noexcept;

/// 0.99 quantile of Student's t, within 8 % from 3 degrees of freedom on: three terms of its expansion in 1 / degrees
/// (Abramowitz and Stegun 26.7.5).
[[nodiscard]] double student_t99(int degrees) noexcept;

/// Neighbouring sizes that are left out together.
struct Fold {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Sizes closer to each other than a tenth of the mean gap, in units and in ratio, share a fold: a size with a twin
/// is predicted by it whatever the family, so leaving it out alone would prove nothing. Ascending, covering all
/// points.
[[nodiscard]] std::vector<Fold> make_folds(std::span<const FitPoint> points);

struct CrossValidation {
  double rms = 0;
  std::vector<double> errors; ///< one per fold: rms of its relative residuals; the ends first
};

/// Predicts each interior fold from all the others. The end folds are never left out, because predicting them would
/// be extrapolation; they count with their residual under `curve`, the fit to all points, over 1 - p / n (p
/// parameters, n points, at least a quarter), so that a family cannot win by bending to them: the leave-one-out
/// residual of linear regression at mean leverage. A last resort, which has no residuals, counts without the ends. At
/// most 64 folds, evenly spread, are left out in turn. Source: leave-one-out cross-validation, Stone, 1974;
/// generalised, Golub, Heath and Wahba, Technometrics 21, 1979. Empty when there are fewer than 3 folds or the family
/// cannot be fitted without some.
[[nodiscard]] std::optional<CrossValidation> cross_validate(const Family& family, const FamilyInput& input,
                                                            const planner::CostCurve& curve);

/// Half-width of the 90 % interval relative to the curve; formula in fit.hpp at fit_curve.
[[nodiscard]] double relative_interval(std::span<const double> residuals, int parameter_count,
                                       double cross_validated_rms, std::span<const FitPoint> points);

} // namespace mc2::profiler::fit
