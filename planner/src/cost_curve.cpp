#include "mc2/planner/cost_curve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::planner {
namespace {

constexpr std::array kAxisNames{Name<CurveAxis>{CurveAxis::Rows, "rows"}, Name<CurveAxis>{CurveAxis::Bytes, "bytes"},
                                Name<CurveAxis>{CurveAxis::Columns, "columns"}};
constexpr std::array kProvenanceNames{
    Name<Provenance>{Provenance::Measured, "measured"}, Name<Provenance>{Provenance::Interpolated, "interpolated"},
    Name<Provenance>{Provenance::Extrapolated, "extrapolated"}, Name<Provenance>{Provenance::Analytic, "analytic"}};

constexpr double kInverseTolerance = 1e-12;
/// Smallest valid_max_x, and smallest valid_min_x above 0. Sizes of a curve that was transferred from a smaller n k may
/// be below one row.
constexpr double kLeastSize = 1e-6;

Result<void> validate_range(const CostCurve& curve) {
  if (!std::isfinite(curve.valid_min_x) || (curve.valid_min_x < kLeastSize && curve.valid_min_x != 0))
    return Error{ErrorCode::InvalidSpec, "valid_min_x",
                 "is " + number_text(curve.valid_min_x) + "; must be 0, or finite and >= " + number_text(kLeastSize)};
  if (!std::isfinite(curve.valid_max_x) || curve.valid_max_x < std::max(curve.valid_min_x, kLeastSize))
    return Error{
        ErrorCode::InvalidSpec, "valid_max_x",
        "is " + number_text(curve.valid_max_x) + "; must be finite, >= valid_min_x and >= " + number_text(kLeastSize)};
  return {};
}

Result<void> validate_errors(const CostCurve& curve) {
  if (!(curve.relative_interval >= 0 && curve.relative_interval <= kMaxCurveInterval))
    return Error{ErrorCode::InvalidSpec, "relative_interval",
                 "is " + number_text(curve.relative_interval) + "; legal: 0 to " + number_text(kMaxCurveInterval)};
  const FitQuality& quality = curve.quality;
  for (const auto& [field, error] : {std::pair{"quality.relative_rms", quality.relative_rms},
                                     {"quality.relative_worst", quality.relative_worst},
                                     {"quality.cross_validated_rms", quality.cross_validated_rms}})
    if (!(std::isfinite(error) && error >= 0))
      return Error{ErrorCode::InvalidSpec, field, "is " + number_text(error) + "; must be finite and >= 0"};
  return {};
}

} // namespace

double joined_interval(double one, double other) noexcept {
  return std::min(std::hypot(one, other), kMaxCurveInterval);
}

std::string_view to_string(CurveAxis axis) noexcept { return name_of<CurveAxis>(kAxisNames, axis); }
Result<CurveAxis> parse_curve_axis(std::string_view text) { return parse_name<CurveAxis>(kAxisNames, text, "axis"); }
std::string_view to_string(Provenance provenance) noexcept { return name_of<Provenance>(kProvenanceNames, provenance); }
Result<Provenance> parse_provenance(std::string_view text) {
  return parse_name<Provenance>(kProvenanceNames, text, "provenance");
}

double CostCurve::time_us(double x) const noexcept {
  if (!(x > 0)) return 0;
  const double us = std::visit([x](const auto& family) { return family.time_us(x); }, shape);
  return std::max(us, 0.0);
}

Result<double> CostCurve::inverse(double t_us, double max_x) const {
  double low = 0, high = max_x;
  for (const double fall_x : std::visit([](const auto& family) { return family.fall_points(); }, shape)) {
    if (!(fall_x < max_x)) break;
    if (time_us(fall_x) >= t_us) {
      high = fall_x;
      break;
    }
    low = fall_x;
  }
  if (!(time_us(high) >= t_us))
    return Error{ErrorCode::OutOfRange, "time",
                 "no block up to " + number_text(max_x) + " " + std::string(to_string(axis)) + " costs " +
                     number_text(t_us) + " us; the largest costs " + number_text(time_us(max_x)) + " us"};
  // Bisection: within (low, high] cost does not fall with size, but it may jump, which rules Newton's method out.
  for (int step = 0; step < 200 && high - low > kInverseTolerance * high; ++step) {
    const double middle = low + (high - low) / 2;
    (time_us(middle) >= t_us ? high : low) = middle;
  }
  return high;
}

double CostCurve::curve_interval() const noexcept {
  if (quality.point_count == 0) return relative_interval;
  return std::min(relative_interval, kNormal90 * std::max(quality.relative_rms, quality.cross_validated_rms));
}

Provenance CostCurve::provenance(double x) const noexcept {
  if (is_analytic) return Provenance::Analytic;
  return x >= valid_min_x && x <= valid_max_x ? Provenance::Interpolated : Provenance::Extrapolated;
}

std::string_view CostCurve::family() const noexcept {
  return std::visit([](const auto& family) { return family.kFamily; }, shape);
}

std::string CostCurve::formula_text() const {
  return std::visit([this](const auto& family) { return family.formula_text(axis); }, shape);
}

Result<void> CostCurve::validate() const {
  MC2_TRY(validate_range(*this));
  MC2_TRY(validate_errors(*this));
  const auto of_family = [this](const auto& family) { return family.validate(valid_min_x, valid_max_x); };
  MC2_TRY(std::visit(of_family, shape));
  if (!std::isfinite(time_us(valid_max_x)))
    return Error{ErrorCode::InvalidSpec, "shape",
                 "gives a time beyond the range of a double at " + number_text(valid_max_x) + "; must be finite"};
  return {};
}

} // namespace mc2::planner
