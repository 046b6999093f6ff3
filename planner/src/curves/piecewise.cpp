#include "mc2/planner/cost_curve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "curves/slope.hpp"
#include "curves/x_text.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

double quadratic_us(const PiecewiseCurve& curve, double x) noexcept {
  const double u = x / curve.scale_x;
  return (curve.q2 * u + curve.q1) * u + curve.q0;
}

bool falls_at(const PiecewiseCurve& curve, double x) noexcept { return falls(curve.q2, curve.q1, x / curve.scale_x); }

Error shape_error(const char* field, const std::string& message) { return {ErrorCode::InvalidSpec, field, message}; }

Result<void> validate_numbers(const PiecewiseCurve& curve) {
  const std::array values{std::pair{"knot_x", curve.knot_x}, std::pair{"scale_x", curve.scale_x},
                          std::pair{"q2", curve.q2},         std::pair{"q1", curve.q1},
                          std::pair{"q0", curve.q0},         std::pair{"l1", curve.l1},
                          std::pair{"l0", curve.l0}};
  for (const auto& [field, value] : values)
    if (!std::isfinite(value)) return shape_error(field, "is not a finite number");
  if (curve.scale_x <= 0) return shape_error("scale_x", "is " + number_text(curve.scale_x) + "; must be > 0");
  if (curve.knot_x <= 0) return shape_error("knot_x", "is " + number_text(curve.knot_x) + "; must be > 0");
  return {};
}

} // namespace

double PiecewiseCurve::time_us(double x) const noexcept {
  return x <= knot_x ? quadratic_us(*this, x) : l1 * (x / scale_x) + l0;
}

std::string PiecewiseCurve::formula_text(CurveAxis axis) const {
  const XText x(axis, scale_x);
  return "x in" + x.scaled_unit() + ": " + number_text(q2) + " x^2 + " + number_text(q1) + " x + " + number_text(q0) +
         " us up to " + x.of(knot_x) + ", then " + number_text(l1) + " x + " + number_text(l0) + " us";
}

Result<void> PiecewiseCurve::validate(double min_x, double max_x) const {
  MC2_TRY(validate_numbers(*this));
  const double quadratic_end_x = std::min(knot_x, max_x);
  // A quadratic is monotone on a range when its slope has one sign at both ends.
  if (min_x < quadratic_end_x && (falls_at(*this, min_x) || falls_at(*this, quadratic_end_x)))
    return shape_error("q2", "makes the curve fall inside its valid range; cost must not fall with size");
  if (l1 < 0) return shape_error("l1", "is negative; cost must not fall with size");
  if (min_x <= knot_x && quadratic_us(*this, min_x) < 0)
    return shape_error("q0", "makes the cost negative inside the valid range");
  const double before_us = quadratic_us(*this, knot_x);
  const double after_us = l1 * (knot_x / scale_x) + l0;
  if (knot_x > min_x && knot_x < max_x && after_us < before_us * (1 - kMaxKnotFall))
    return shape_error("l0", fall_text(before_us, after_us));
  return {};
}

std::span<const double> PiecewiseCurve::fall_points() const noexcept { return {&knot_x, 1}; }

void PiecewiseCurve::scale_times(double factor) noexcept {
  for (double* coefficient : {&q2, &q1, &q0, &l1, &l0}) *coefficient *= factor;
}

void PiecewiseCurve::scale_rows(const SizeRatios& ratios) {
  knot_x /= ratios.flops();
  scale_x /= ratios.flops();
}

} // namespace mc2::planner
