#pragma once

#include <string>

#include "mc2/planner/cost_curve.hpp"

namespace mc2::planner::curves {

[[nodiscard]] double time_us(const AffineCurve& curve, double x) noexcept;
[[nodiscard]] std::string formula_text(const AffineCurve& curve, CurveAxis axis);
/// Errors: InvalidSpec.
[[nodiscard]] Result<void> validate(const AffineCurve& curve);
/// Multiplies every time by the factor.
void scale_times(AffineCurve& curve, double factor) noexcept;

} // namespace mc2::planner::curves
