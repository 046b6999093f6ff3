#include "mc2/planner/cost_curve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "curves/x_text.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

/// Beyond it, neighbouring whole sizes are no longer distinct.
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

/// A wave covers fewer rows of a wider product, and lasts as long as its k.
void StaircaseCurve::scale_rows(const SizeRatios& ratios) {
  beta_us_per_x *= ratios.flops();
  step_us *= ratios.k;
  period_x = std::max(period_x / ratios.n, 1.0);
  period_source += ", scaled to another n";
}

namespace {

/// A period that is no whole number (16896 / 56 rows) must not begin a wave one rounding error early.
constexpr double kRoundingSlack = 1 - 1e-12;

/// 116 / 132 of 132 units are 116, whichever way the ratio was rounded.
int usable_units(const WaveFacts& facts) { return static_cast<int>(facts.unit_count * facts.unit_share + 1e-6); }

} // namespace

double wave_count(double x, double period_x) noexcept { return std::ceil(x / period_x * kRoundingSlack); }

Result<double> wave_period_rows(const WaveFacts& facts) {
  const std::array counts{std::pair{"unit_count", static_cast<std::int64_t>(facts.unit_count)},
                          std::pair{"tile_rows", static_cast<std::int64_t>(facts.tile_rows)},
                          std::pair{"tile_columns", static_cast<std::int64_t>(facts.tile_columns)},
                          std::pair{"n", facts.n}};
  for (const auto& [field, value] : counts)
    if (value < 1) return Error{ErrorCode::InvalidSpec, field, "is " + std::to_string(value) + "; must be at least 1"};
  if (!(facts.unit_share > 0 && facts.unit_share <= 1))
    return Error{ErrorCode::InvalidSpec, "unit_share",
                 "is " + number_text(facts.unit_share) + "; must be above 0 and at most 1"};
  const int units = usable_units(facts);
  if (units < 1) return Error{ErrorCode::InvalidSpec, "unit_share", "leaves none of the units; must leave at least 1"};
  const std::int64_t tiles_across = (facts.n - 1) / facts.tile_columns + 1;
  return static_cast<double>(facts.tile_rows) * units / static_cast<double>(tiles_across);
}

std::string wave_text(const WaveFacts& facts) {
  return std::to_string(usable_units(facts)) + " of " + std::to_string(facts.unit_count) + " units, tiles of " +
         std::to_string(facts.tile_rows) + " x " + std::to_string(facts.tile_columns) +
         ", n = " + std::to_string(facts.n);
}

} // namespace mc2::planner
