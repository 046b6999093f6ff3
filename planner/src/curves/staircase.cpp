#include "curves/staircase.hpp"

#include <array>
#include <cmath>
#include <utility>

#include "curves/affine.hpp"
#include "curves/x_text.hpp"
#include "text.hpp"

namespace mc2::planner {
namespace curves {
namespace {

/// Beyond it, neighbouring whole sizes are no longer distinct.
constexpr double kMaxPeriod = 9007199254740992.0;

} // namespace

double time_us(const StaircaseCurve& curve, double x) noexcept {
  return curve.alpha_us + curve.beta_us_per_x * x + curve.step_us * wave_count(x, curve.period_x);
}

std::string formula_text(const StaircaseCurve& curve, CurveAxis axis) {
  std::string text = formula_text(AffineCurve{curve.alpha_us, curve.beta_us_per_x}, axis) + " + " +
                     number_text(curve.step_us) + " us for each " + XText(axis, 1).of(curve.period_x) + " begun";
  if (!curve.period_source.empty()) text += " (period: " + curve.period_source + ")";
  return text;
}

Result<void> validate(const StaircaseCurve& curve) {
  if (auto base = validate(AffineCurve{curve.alpha_us, curve.beta_us_per_x}); !base) return base;
  if (!std::isfinite(curve.step_us) || curve.step_us < 0)
    return Error{ErrorCode::InvalidSpec, "step_us", "is " + number_text(curve.step_us) + "; must be finite and >= 0"};
  if (!(curve.period_x >= 1 && curve.period_x <= kMaxPeriod))
    return Error{ErrorCode::InvalidSpec, "period_x",
                 "is " + number_text(curve.period_x) + "; must be between 1 and 2^53"};
  return {};
}

void scale_times(StaircaseCurve& curve, double factor) noexcept {
  curve.alpha_us *= factor;
  curve.beta_us_per_x *= factor;
  curve.step_us *= factor;
}

} // namespace curves

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
