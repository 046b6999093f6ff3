#include "curves/affine.hpp"

#include <cmath>

#include "text.hpp"

namespace mc2::planner::curves {

double time_us(const AffineCurve& curve, double x) noexcept { return curve.alpha_us + curve.beta_us_per_x * x; }

std::string formula_text(const AffineCurve& curve, CurveAxis axis) {
  if (axis != CurveAxis::Bytes)
    return number_text(curve.alpha_us) + " us + " + number_text(curve.beta_us_per_x) +
           (axis == CurveAxis::Rows ? " us/row" : " us/column");
  return number_text(curve.alpha_us) + " us + " + number_text(curve.beta_us_per_x * 1048576.0) + " us/MiB";
}

Result<void> validate(const AffineCurve& curve) {
  if (!std::isfinite(curve.alpha_us) || curve.alpha_us < 0)
    return Error{ErrorCode::InvalidSpec, "alpha_us", "is " + number_text(curve.alpha_us) + "; must be finite and >= 0"};
  if (!std::isfinite(curve.beta_us_per_x) || curve.beta_us_per_x < 0)
    return Error{ErrorCode::InvalidSpec, "beta_us_per_x",
                 "is " + number_text(curve.beta_us_per_x) + "; must be finite and >= 0"};
  return {};
}

void scale_times(AffineCurve& curve, double factor) noexcept {
  curve.alpha_us *= factor;
  curve.beta_us_per_x *= factor;
}

} // namespace mc2::planner::curves
