#include "mc2/profiler/override.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mc2/planner/text.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

using planner::Component;
using planner::CostCurve;
using planner::CurveAxis;
using planner::CurveKnot;

constexpr std::size_t kFittedSizes = 3;
constexpr double kFadeOctaves = 2;
/// Published and measured times of one device differ by less than this factor.
constexpr double kMostRatio = 4;
constexpr double kKnotsPerOctave = 8;
constexpr double kLeastBytes = 1 << 14, kMostBytes = 1 << 30; ///< a corrected curve has knots at least over this range

/// One point per size, with the low quantile that fits use.
std::vector<FitPoint> points_of(const planner::Profile& profile, Component component) {
  std::map<std::int64_t, std::vector<double>> sizes;
  for (const auto& sample : profile.samples) {
    if (sample.component != component || sample.is_outlier || sample.context != planner::Context::Alone) continue;
    sizes[sample.size()].push_back(sample.time_us());
  }
  std::vector<FitPoint> points;
  for (const auto& [size, times] : sizes)
    points.push_back({static_cast<double>(size), quantile(times, kLowQuantile), 0, static_cast<int>(times.size())});
  return points;
}

std::string count_text(const std::vector<FitPoint>& points) {
  return std::to_string(points.size()) + (points.size() == 1 ? " imported size" : " imported sizes");
}

CostCurve scaled_to(const CostCurve& curve, const std::vector<FitPoint>& points) {
  double log_ratio = 0;
  for (const FitPoint& point : points)
    log_ratio += std::log(point.time_us / curve.time_us(point.x)) / static_cast<double>(points.size());
  CostCurve result = planner::scaled(curve, std::exp(log_ratio));
  result.quality.reason += "; times " + number_text(std::exp(log_ratio)) + " by " + count_text(points);
  return result;
}

/// log(measured / published) at size x, interpolated between the points and fading beyond them. Points ascend.
double log_ratio_at(const CostCurve& curve, const std::vector<FitPoint>& points, double x) {
  const auto ratio = [&](const FitPoint& point) { return std::log(point.time_us / curve.time_us(point.x)); };
  const auto faded = [&](const FitPoint& point) {
    return ratio(point) * std::max(0.0, 1 - std::abs(std::log2(x / point.x)) / kFadeOctaves);
  };
  if (x <= points.front().x) return faded(points.front());
  if (x >= points.back().x) return faded(points.back());
  const auto above = std::find_if(points.begin(), points.end(), [&](const FitPoint& point) { return point.x >= x; });
  const double share = std::log(x / (above - 1)->x) / std::log(above->x / (above - 1)->x);
  return (1 - share) * ratio(*(above - 1)) + share * ratio(*above);
}

CostCurve corrected_near(const CostCurve& curve, const std::vector<FitPoint>& points) {
  std::vector<double> sizes;
  const double least = std::min(kLeastBytes, points.front().x / 8), most = std::max(kMostBytes, points.back().x * 8);
  const int count = std::min(200, static_cast<int>(std::log2(most / least) * kKnotsPerOctave));
  for (int i = 0; i <= count; ++i) sizes.push_back(least * std::exp2(std::log2(most / least) * i / count));
  for (const FitPoint& point : points) sizes.push_back(point.x);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end(), [](double a, double b) { return b < a * (1 + 1e-9); }),
              sizes.end());
  planner::InterpolatedCurve shape;
  for (const double x : sizes) {
    const double us = curve.time_us(x) * std::exp(log_ratio_at(curve, points, x));
    shape.knots.push_back({x, shape.knots.empty() ? us : std::max(us, shape.knots.back().time_us)}); // never falls
  }
  CostCurve result = curve;
  result.shape = std::move(shape);
  result.quality.reason += "; corrected near " + count_text(points);
  return result;
}

/// Errors: CannotFit for a point that differs from the published time by more than kMostRatio.
Result<void> check_against(const CostCurve& curve, const std::vector<FitPoint>& points) {
  for (const FitPoint& point : points) {
    const double published_us = curve.time_us(point.x), ratio = point.time_us / published_us;
    if (ratio <= kMostRatio && ratio >= 1 / kMostRatio) continue;
    const bool is_compute = curve.axis != CurveAxis::Bytes;
    return Error{
        ErrorCode::CannotFit, is_compute ? "matmul" : "collective",
        "of " + number_text(point.x, 12) + (is_compute ? " rows" : " B") + " took " + time_text(point.time_us) +
            " where " + time_text(published_us) + " is published: " +
            (ratio < 1    ? "its size is wrong, or it is of another device"
             : is_compute ? "it is of another device, or the device was busy"
                          : "it waited for other ranks, which is no time of the collective, or is of another device") +
            "; import other logs, or these under another name"};
  }
  return {};
}

/// The lane's curve fitted or corrected to the points. Adds a note about it.
CostCurve overridden(const CostCurve& curve, const std::vector<FitPoint>& points, std::vector<std::string>& notes) {
  const bool is_compute = curve.axis != CurveAxis::Bytes;
  const std::string lane = is_compute ? "matmul" : "collective";
  if (points.size() >= kFittedSizes) {
    auto fitted = fit_curve(points, curve.axis);
    if (fitted) {
      notes.push_back(lane + ": fitted to " + count_text(points));
      return std::move(fitted).value();
    }
    notes.push_back(lane + ": no curve fits the samples (" + fitted.error().message + ")");
  }
  notes.push_back(lane + ": published curve " + (is_compute ? "scaled to " : "corrected near ") + count_text(points));
  return is_compute ? scaled_to(curve, points) : corrected_near(curve, points);
}

} // namespace

Result<FitSummary> override_model(planner::CostModel model, const planner::Profile& profile) {
  MC2_TRY(model.validate());
  FitSummary summary;
  const auto compute = points_of(profile, Component::Matmul), communication = points_of(profile, Component::Collective);
  for (const auto* points : {&compute, &communication})
    for (const FitPoint& point : *points)
      if (!(point.x > 0) || !(point.time_us > 0))
        return Error{ErrorCode::InvalidSpec, "samples", "a size or time is not above 0"};
  for (auto& variant : model.variants) {
    MC2_TRY(check_against(variant.compute.curve, compute));
    MC2_TRY(check_against(variant.communication.curve, communication));
    if (!compute.empty()) variant.compute.curve = overridden(variant.compute.curve, compute, summary.notes);
    if (!communication.empty())
      variant.communication.curve = overridden(variant.communication.curve, communication, summary.notes);
  }
  if (!compute.empty()) model.serial.reset();
  summary.model = std::move(model);
  MC2_TRY(summary.model.validate());
  return summary;
}

} // namespace mc2::profiler
