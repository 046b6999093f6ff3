#include "mc2/planner/cost_curve.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "curves/x_text.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::planner {
namespace {

using Knots = std::span<const CurveKnot>;

/// Slope of the line from a knot to the next one.
double secant(Knots knots, std::size_t i) noexcept {
  return (knots[i + 1].time_us - knots[i].time_us) / (knots[i + 1].x - knots[i].x);
}

/// Weighted harmonic mean of the two secants that meet at a knot (Fritsch and Butland, 1984, eq. 4); at an end knot,
/// the only secant.
double slope_at(Knots knots, std::size_t i) noexcept {
  if (i == 0) return secant(knots, 0);
  if (i + 1 == knots.size()) return secant(knots, i - 1);
  const double before = secant(knots, i - 1), after = secant(knots, i);
  if (!(before > 0) || !(after > 0)) return 0;
  const double width_before = knots[i].x - knots[i - 1].x, width_after = knots[i + 1].x - knots[i].x;
  const double weight = (width_before + 2 * width_after) / (3 * (width_before + width_after));
  return before / (weight + (1 - weight) * (before / after));
}

/// Cubic Hermite polynomial between knots i and i + 1.
double between_us(Knots knots, std::size_t i, double x) noexcept {
  const CurveKnot& low = knots[i];
  const CurveKnot& high = knots[i + 1];
  const double width = high.x - low.x;
  const double s = (x - low.x) / width;
  const double rise = high.time_us - low.time_us;
  const double low_slope = slope_at(knots, i) * width, high_slope = slope_at(knots, i + 1) * width;
  const double gain =
      s * (low_slope + s * (3 * rise - 2 * low_slope - high_slope + s * (low_slope + high_slope - 2 * rise)));
  return std::clamp(low.time_us + gain, low.time_us, high.time_us); // rounding must not make it fall
}

} // namespace

double InterpolatedCurve::time_us(double x) const noexcept {
  if (knots.size() < 2) return 0;
  if (x <= knots.front().x) return std::max(knots.front().time_us - secant(knots, 0) * (knots.front().x - x), 0.0);
  const std::size_t last = knots.size() - 1;
  if (x >= knots[last].x) return knots[last].time_us + secant(knots, last - 1) * (x - knots[last].x);
  const auto above = std::upper_bound(knots.begin(), knots.end(), x,
                                      [](double value, const CurveKnot& knot) { return value < knot.x; });
  return between_us(knots, static_cast<std::size_t>(above - knots.begin()) - 1, x);
}

std::string InterpolatedCurve::formula_text(CurveAxis axis) const {
  if (knots.empty()) return "no knots";
  const XText x(axis, kBytesPerMib);
  const CurveKnot& first = knots.front();
  const CurveKnot& last = knots.back();
  return "monotone interpolation of " + std::to_string(knots.size()) + " sizes, " + x.of(first.x) + " " +
         number_text(first.time_us) + " us to " + x.of(last.x) + " " + number_text(last.time_us) + " us";
}

Result<void> InterpolatedCurve::validate(double /*min_x*/, double /*max_x*/) const {
  const auto error = [](std::string field, std::string message) {
    return Error{ErrorCode::InvalidSpec, std::move(field), std::move(message)};
  };
  if (knots.size() < 2 || knots.size() > kMaxCurveKnots)
    return error("knots",
                 "has " + std::to_string(knots.size()) + " entries; must have 2 to " + std::to_string(kMaxCurveKnots));
  for (std::size_t i = 0; i < knots.size(); ++i) {
    const std::string field = "knots[" + std::to_string(i) + "].";
    const auto [x, time_us] = knots[i];
    if (!(x >= 0 && x <= kMaxKnotX))
      return error(field + "x", "is " + number_text(x) + "; must be between 0 and " + number_text(kMaxKnotX));
    if (!(time_us >= 0 && time_us <= kMaxKnotTimeUs))
      return error(field + "time_us",
                   "is " + number_text(time_us) + "; must be between 0 and " + number_text(kMaxKnotTimeUs));
    if (i == 0) continue;
    const CurveKnot& before = knots[i - 1];
    if (x <= before.x)
      return error(field + "x", "is " + number_text(x) + "; must be above the " + number_text(before.x) + " before it");
    if (time_us < before.time_us)
      return error(field + "time_us", "is " + number_text(time_us) + ", below the " + number_text(before.time_us) +
                                          " before it; cost must not fall with size");
    if (!std::isfinite(secant(knots, i - 1)))
      return error(field + "x", "is too close to the one before it for the difference of their times");
  }
  return {};
}

std::span<const double> InterpolatedCurve::fall_points() const noexcept { return {}; }

void InterpolatedCurve::scale_times(double factor) noexcept {
  for (CurveKnot& knot : knots) knot.time_us *= factor;
}

void InterpolatedCurve::scale_rows(const SizeRatios& ratios) {
  for (CurveKnot& knot : knots) knot.x /= ratios.flops();
}

} // namespace mc2::planner
