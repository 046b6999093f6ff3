#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fit/family.hpp"
#include "mc2/planner/cost_curve.hpp"
#include "mc2/profiler/fit.hpp"

namespace mc2::profiler::fit {

/// (fitted - measured) / measured, one per point.
[[nodiscard]] std::vector<double> relative_residuals(const planner::CostCurve& curve,
                                                     std::span<const FitPoint> points);

/// 95 % quantile of Student's t: what a 90 % interval reaches to on either side. Degrees below 1 count as 1.
[[nodiscard]] double student_t95(int degrees) noexcept;

/// sqrt of the mean square; 0 for none.
[[nodiscard]] double root_mean_square(std::span<const double> values) noexcept;

/// Relative rms of predicting each interior size from all the others. The ends are never left out, because predicting
/// them would be extrapolation; they count with their residual under `curve`, the fit to all points, so that a family
/// cannot win by giving them up. At most 64 sizes, evenly spread, are left out in turn.
/// Source: leave-one-out cross-validation, Stone, 1974. Empty when the family cannot be fitted without some size.
[[nodiscard]] std::optional<double> cross_validated_rms(const Family& family, const FamilyInput& input,
                                                        const planner::CostCurve& curve);

/// Half-width of the 90 % interval relative to the curve; formula in fit.hpp at fit_curve.
[[nodiscard]] double relative_interval(std::span<const double> residuals, int parameter_count,
                                       double cross_validated_rms, std::span<const FitPoint> points);

} // namespace mc2::profiler::fit
