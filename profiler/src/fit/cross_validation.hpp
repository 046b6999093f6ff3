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

/// 0.95 quantile of Student's t, the half-width of a 90 % interval in standard errors. Degrees below 1 count as 1.
[[nodiscard]] double student_t95(int degrees) noexcept;

/// Square root of the mean square; 0 without values.
[[nodiscard]] double root_mean_square(std::span<const double> values) noexcept;

/// 0.99 quantile of Student's t, within 8 % from 3 degrees of freedom on: three terms of its expansion in 1 / degrees
/// (Abramowitz and Stegun 26.7.5).
[[nodiscard]] double student_t99(int degrees) noexcept;

/// Neighbouring sizes that are left out together.
struct Fold {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Splits ascending points into ascending folds that cover all points. Neighbours closer than a tenth of the mean gap,
/// both in units and in ratio, share a fold: either of them would predict the other whatever the family, so leaving out
/// one alone would prove nothing.
[[nodiscard]] std::vector<Fold> make_folds(std::span<const FitPoint> points);

struct CrossValidation {
  double rms = 0;
  std::vector<double> errors; ///< one per fold: rms of its relative residuals; the ends first
};

/// Cross-validates a family.
///   interior  each interior fold is predicted from all other folds. At most 24 interior folds, evenly spread, are left
///             out in turn.
///   ends      the end folds are never left out, because predicting them would be extrapolation. They count with their
///             residual under `curve`, the fit to all points, divided by 1 - p / n (p parameters, n points; at least a
///             quarter). This is the leave-one-out residual of linear regression at mean leverage, so that a family
///             cannot win by bending to the ends. A last resort has no residuals and counts without the ends.
/// Source: leave-one-out cross-validation, Stone, 1974; generalised, Golub, Heath and Wahba, Technometrics 21, 1979.
/// Empty when there are fewer than 3 folds, or the family cannot be fitted without one of them.
[[nodiscard]] std::optional<CrossValidation> cross_validate(const Family& family, const FamilyInput& input,
                                                            const planner::CostCurve& curve);

/// Half-width of the 90 % interval relative to the curve. The formula is in fit.hpp at fit_curve.
[[nodiscard]] double relative_interval(std::span<const double> residuals, int parameter_count,
                                       double cross_validated_rms, std::span<const FitPoint> points);

} // namespace mc2::profiler::fit
