#include "fit/cross_validation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler::fit {
namespace {

constexpr std::size_t kMaxFoldCount = 24;
constexpr double kTwinGap = 0.1;
constexpr double kLeastFreedom = 0.25;

/// 0.95 quantile of Student's t for 1, 2, ... degrees of freedom.
constexpr std::array kStudentT95{6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
                                 1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725};

/// rms of a fold's residuals under the fit to all other points.
std::optional<double> left_out_error(const Family& family, const FamilyInput& input, const Fold& fold) {
  std::vector<FitPoint> rest(input.points.begin(), input.points.end());
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(fold.begin),
             rest.begin() + static_cast<std::ptrdiff_t>(fold.end));
  FamilyInput without = input;
  without.points = rest;
  without.is_fold = true;
  const auto shape = family.fit(without);
  if (!shape) return std::nullopt;
  planner::CostCurve curve;
  curve.shape = *shape;
  return root_mean_square(relative_residuals(curve, input.points.subspan(fold.begin, fold.end - fold.begin)));
}

double fitted_error(const Family& family, const FamilyInput& input, const planner::CostCurve& curve, const Fold& fold) {
  const double leverage = family.parameter_count / static_cast<double>(input.points.size());
  const auto points = input.points.subspan(fold.begin, fold.end - fold.begin);
  return root_mean_square(relative_residuals(curve, points)) / std::max(1 - leverage, kLeastFreedom);
}

} // namespace

double student_t95(int degrees) noexcept {
  const auto row = static_cast<std::size_t>(std::max(degrees, 1) - 1);
  if (row < kStudentT95.size()) return kStudentT95[row];
  // First term of the expansion in 1 / degrees: (z^3 + z) / 4 (Abramowitz and Stegun 26.7.5).
  return planner::kNormal90 +
         (planner::kNormal90 * planner::kNormal90 * planner::kNormal90 + planner::kNormal90) / (4.0 * degrees);
}

std::vector<double> relative_residuals(const planner::CostCurve& curve, std::span<const FitPoint> points) {
  std::vector<double> residuals;
  residuals.reserve(points.size());
  for (const FitPoint& point : points) residuals.push_back((curve.time_us(point.x) - point.time_us) / point.time_us);
  return residuals;
}

double root_mean_square(std::span<const double> values) noexcept {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double student_t99(int degrees) noexcept {
  constexpr double z = 2.326; // 0.99 quantile of the normal distribution
  constexpr double first = (z * z * z + z) / 4, second = (5 * z * z * z * z * z + 16 * z * z * z + 3 * z) / 96;
  const double inverse = 1.0 / std::max(degrees, 1);
  return z + (first + second * inverse) * inverse;
}

std::vector<Fold> make_folds(std::span<const FitPoint> points) {
  std::vector<Fold> folds;
  if (points.empty()) return folds;
  const double gap_count = static_cast<double>(points.size()) - 1;
  const double twin_gap = kTwinGap * (points.back().x - points.front().x) / gap_count;
  const double twin_log = kTwinGap * std::log(points.back().x / points.front().x) / gap_count;
  folds.push_back({0, 1});
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double gap = points[i].x - points[i - 1].x;
    const bool is_twin = gap < twin_gap && std::log(points[i].x / points[i - 1].x) < twin_log;
    if (is_twin)
      folds.back().end = i + 1;
    else
      folds.push_back({i, i + 1});
  }
  return folds;
}

std::optional<CrossValidation> cross_validate(const Family& family, const FamilyInput& input,
                                              const planner::CostCurve& curve) {
  const std::vector<Fold> folds = make_folds(input.points);
  if (folds.size() < 3) return std::nullopt;
  CrossValidation result;
  if (!family.is_last_resort()) {
    result.errors = {fitted_error(family, input, curve, folds.front()),
                     fitted_error(family, input, curve, folds.back())};
  }
  const std::size_t interior_count = folds.size() - 2;
  const std::size_t count = std::min(interior_count, kMaxFoldCount);
  for (std::size_t i = 0; i < count; ++i) {
    const auto error = left_out_error(family, input, folds[1 + i * interior_count / count]);
    if (!error) return std::nullopt;
    result.errors.push_back(*error);
  }
  result.rms = root_mean_square(result.errors);
  return result;
}

double relative_interval(std::span<const double> residuals, int parameter_count, double cross_validated_rms,
                         std::span<const FitPoint> points) {
  const int degrees = std::max(static_cast<int>(residuals.size()) - parameter_count, 1);
  const auto point_count = static_cast<double>(residuals.size());
  const double rms = root_mean_square(residuals);
  const double variance = rms * rms * point_count / degrees * (1 + parameter_count / point_count);
  std::vector<double> spreads;
  for (const FitPoint& point : points) spreads.push_back(point.relative_spread);
  const double spread = quantile(spreads, 0.5);
  return std::min(
      student_t95(degrees) * std::sqrt(std::max(variance, cross_validated_rms * cross_validated_rms) + spread * spread),
      planner::kMaxCurveInterval);
}

} // namespace mc2::profiler::fit
