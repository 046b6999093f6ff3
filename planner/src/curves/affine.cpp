#include "mc2/planner/cost_curve.hpp"

#include <cmath>

#include "mc2/planner/text.hpp"

namespace mc2::planner {

double AffineCurve::time_us(double x) const noexcept { return alpha_us + beta_us_per_x * x; }

std::string AffineCurve::formula_text(CurveAxis axis) const {
  if (axis != CurveAxis::Bytes)
    return number_text(alpha_us) + " us + " + number_text(beta_us_per_x) +
           (axis == CurveAxis::Rows ? " us/row" : " us/column");
  return number_text(alpha_us) + " us + " + number_text(beta_us_per_x * 1048576.0) + " us/MiB";
}

Result<void> AffineCurve::validate(double /*min_x*/, double /*max_x*/) const {
  if (!std::isfinite(alpha_us) || alpha_us < 0)
    return Error{ErrorCode::InvalidSpec, "alpha_us", "is " + number_text(alpha_us) + "; must be finite and >= 0"};
  if (!std::isfinite(beta_us_per_x) || beta_us_per_x < 0)
    return Error{ErrorCode::InvalidSpec, "beta_us_per_x",
                 "is " + number_text(beta_us_per_x) + "; must be finite and >= 0"};
  return {};
}

std::span<const double> AffineCurve::fall_points() const noexcept { return {}; }

void AffineCurve::scale_times(double factor) noexcept {
  alpha_us *= factor;
  beta_us_per_x *= factor;
}

void AffineCurve::scale_rows(const SizeRatios& ratios) { beta_us_per_x *= ratios.flops(); }

} // namespace mc2::planner
