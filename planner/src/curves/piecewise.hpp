#pragma once

#include <string>

#include "mc2/planner/cost_curve.hpp"

namespace mc2::planner::curves {

[[nodiscard]] double time_us(const PiecewiseCurve& curve, double x) noexcept;
[[nodiscard]] std::string formula_text(const PiecewiseCurve& curve, CurveAxis axis);
/// Errors: InvalidSpec.
[[nodiscard]] Result<void> validate(const PiecewiseCurve& curve, double min_x, double max_x);
/// Multiplies every time by the factor.
void scale_times(PiecewiseCurve& curve, double factor) noexcept;

} // namespace mc2::planner::curves
