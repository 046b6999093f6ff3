#include "curves/piecewise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "curves/slope.hpp"
#include "curves/x_text.hpp"
#include "text.hpp"

namespace mc2::planner::curves {
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

double time_us(const PiecewiseCurve& curve, double x) noexcept {
  return x <= curve.knot_x ? quadratic_us(curve, x) : curve.l1 * (x / curve.scale_x) + curve.l0;
}

std::string formula_text(const PiecewiseCurve& curve, CurveAxis axis) {
  const XText x(axis, curve.scale_x);
  return "x in" + x.scaled_unit() + ": " + number_text(curve.q2) + " x^2 + " + number_text(curve.q1) + " x + " +
         number_text(curve.q0) + " us up to " + x.of(curve.knot_x) + ", then " + number_text(curve.l1) + " x + " +
         number_text(curve.l0) + " us";
}

Result<void> validate(const PiecewiseCurve& curve, double min_x, double max_x) {
  if (auto numbers = validate_numbers(curve); !numbers) return numbers;
  const double quadratic_end_x = std::min(curve.knot_x, max_x);
  // A quadratic is monotone on a range when its slope has one sign at both ends.
  if (min_x < quadratic_end_x && (falls_at(curve, min_x) || falls_at(curve, quadratic_end_x)))
    return shape_error("q2", "makes the curve fall inside its valid range; cost must not fall with size");
  if (curve.l1 < 0) return shape_error("l1", "is negative; cost must not fall with size");
  if (min_x <= curve.knot_x && quadratic_us(curve, min_x) < 0)
    return shape_error("q0", "makes the cost negative inside the valid range");
  const double before_us = quadratic_us(curve, curve.knot_x);
  const double after_us = curve.l1 * (curve.knot_x / curve.scale_x) + curve.l0;
  if (curve.knot_x > min_x && curve.knot_x < max_x && after_us < before_us * (1 - kMaxKnotFall))
    return shape_error("l0", fall_text(before_us, after_us));
  return {};
}

void scale_times(PiecewiseCurve& curve, double factor) noexcept {
  for (double* coefficient : {&curve.q2, &curve.q1, &curve.q0, &curve.l1, &curve.l0}) *coefficient *= factor;
}

} // namespace mc2::planner::curves
