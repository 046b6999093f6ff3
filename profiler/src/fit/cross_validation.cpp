#include "fit/cross_validation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler::fit {
namespace {

constexpr std::size_t kMaxFoldCount = 64;

/// 0.95 quantile of Student's t for 1, 2, ... degrees of freedom.
constexpr std::array kStudentT95{6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
                                 1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725};
constexpr double kNormal95 = 1.645;

std::optional<double> left_out_residual(const Family& family, const FamilyInput& input, std::size_t left_out) {
  std::vector<FitPoint> rest(input.points.begin(), input.points.end());
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left_out));
  const auto shape = family.fit({rest, input.axis, input.robust_scale, true});
  if (!shape) return std::nullopt;
  planner::CostCurve curve;
  curve.shape = *shape;
  return relative_residuals(curve, input.points.subspan(left_out, 1)).front();
}

} // namespace

double student_t95(int degrees) noexcept {
  const auto row = static_cast<std::size_t>(std::max(degrees, 1) - 1);
  if (row < kStudentT95.size()) return kStudentT95[row];
  // First term of the expansion in 1 / degrees: (z^3 + z) / 4 (Abramowitz and Stegun 26.7.5).
  return kNormal95 + (kNormal95 * kNormal95 * kNormal95 + kNormal95) / (4.0 * degrees);
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

std::optional<double> cross_validated_rms(const Family& family, const FamilyInput& input,
                                          const planner::CostCurve& curve) {
  if (input.points.size() < 3) return std::nullopt;
  const std::size_t interior_count = input.points.size() - 2;
  const std::size_t fold_count = std::min(interior_count, kMaxFoldCount);
  const std::array ends{input.points.front(), input.points.back()};
  std::vector<double> residuals = relative_residuals(curve, ends);
  for (std::size_t fold = 0; fold < fold_count; ++fold) {
    const auto residual = left_out_residual(family, input, 1 + fold * interior_count / fold_count);
    if (!residual) return std::nullopt;
    residuals.push_back(*residual);
  }
  return root_mean_square(residuals);
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
  return student_t95(degrees) *
         std::sqrt(std::max(variance, cross_validated_rms * cross_validated_rms) + spread * spread);
}

} // namespace mc2::profiler::fit
