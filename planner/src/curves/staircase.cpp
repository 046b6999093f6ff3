#include "mc2/planner/cost_curve.hpp"

#include <algorithm>
#include <cmath>

#include "curves/x_text.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

/// 2^53. Above it, a double does not distinguish neighbouring whole sizes.
constexpr double kMaxPeriod = 9007199254740992.0;

} // namespace

double StaircaseCurve::time_us(double x) const noexcept {
  return alpha_us + beta_us_per_x * x + step_us * wave_count(x, period_x);
}

std::string StaircaseCurve::formula_text(CurveAxis axis) const {
  std::string text = AffineCurve{alpha_us, beta_us_per_x}.formula_text(axis) + " + " + number_text(step_us) +
                     " us for each " + XText(axis, 1).of(period_x) + " begun";
  if (!period_source.empty()) text += " (period: " + period_source + ")";
  return text;
}

Result<void> StaircaseCurve::validate(double min_x, double max_x) const {
  MC2_TRY(AffineCurve{alpha_us, beta_us_per_x}.validate(min_x, max_x));
  if (!std::isfinite(step_us) || step_us < 0)
    return Error{ErrorCode::InvalidSpec, "step_us", "is " + number_text(step_us) + "; must be finite and >= 0"};
  if (!(period_x >= 1 && period_x <= kMaxPeriod))
    return Error{ErrorCode::InvalidSpec, "period_x", "is " + number_text(period_x) + "; must be between 1 and 2^53"};
  return {};
}

std::span<const double> StaircaseCurve::fall_points() const noexcept { return {}; }

void StaircaseCurve::scale_times(double factor) noexcept {
  alpha_us *= factor;
  beta_us_per_x *= factor;
  step_us *= factor;
}

/// A wave covers fewer rows of a wider product, and its time is proportional to k.
void StaircaseCurve::scale_rows(const SizeRatios& ratios) {
  beta_us_per_x *= ratios.flops();
  step_us *= ratios.k;
  period_x = std::max(period_x / ratios.n, 1.0);
  period_source += ", scaled to another n";
}

namespace {

/// A period that is no whole number (16896 / 56 rows) must not begin a wave one rounding error early.
constexpr double kRoundingSlack = 1 - 1e-12;

} // namespace

double wave_count(double x, double period_x) noexcept { return std::ceil(x / period_x * kRoundingSlack); }

} // namespace mc2::planner
