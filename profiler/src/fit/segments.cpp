#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include <ceres/autodiff_cost_function.h>
#include <ceres/loss_function.h>

#include "fit/family.hpp"
#include "fit/linear.hpp"
#include "fit/solver.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::profiler::fit {
namespace {

using planner::SegmentsCurve;

constexpr int kMaxExchangeCount = 3;
constexpr std::size_t kMaxTriedCount = 32;  ///< most samples that a knot is tried at
constexpr std::size_t kMinKnotDistance = 2; ///< in samples: a segment without a sample strictly inside fits anything
/// Share of the gap to the next sample that a knot may move through, so that two knots never meet.
constexpr double kKnotFreedom = 0.9;

/// Knots at samples, by index, and the line pieces between them.
struct Knots {
  std::vector<std::size_t> at;
  LinearFit pieces; ///< time at 0, then each segment's slope
};

/// Length of the part of [0, x] that lies in a segment.
template <typename T>
T part_inside(double x, const T& begin, const T& end) {
  if (T(x) <= begin) return T(0);
  return T(x) >= end ? end - begin : x - begin;
}

std::optional<LinearFit> fit_pieces(const ScaledPoints& scaled, std::span<const std::size_t> at, double robust_scale) {
  const auto slope_count = static_cast<Eigen::Index>(at.size()) + 1;
  RelativeDesign design(static_cast<Eigen::Index>(scaled.x.size()), slope_count + 1);
  for (std::size_t i = 0; i < scaled.x.size(); ++i) {
    const auto row = static_cast<Eigen::Index>(i);
    design(row, 0) = 1;
    for (Eigen::Index segment = 0; segment < slope_count; ++segment) {
      const auto s = static_cast<std::size_t>(segment);
      design(row, segment + 1) = part_inside(scaled.x[i], s == 0 ? 0.0 : scaled.x[at[s - 1]],
                                             s == at.size() ? scaled.x.back() : scaled.x[at[s]]);
    }
    design.row(row) /= scaled.time[i];
  }
  return fit_nonnegative(design, robust_scale, kSearchReweightings);
}

bool is_free(std::size_t sample, std::span<const std::size_t> at, std::size_t except) {
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (i == except) continue;
    if (std::max(sample, at[i]) - std::min(sample, at[i]) < kMinKnotDistance) return false;
  }
  return true;
}

/// Moves one knot to the sample with the least loss; the others stay. False when the knot does not move.
bool place_best(const ScaledPoints& scaled, std::size_t knot, double robust_scale, Knots& knots) {
  const std::size_t before = knots.at[knot];
  std::optional<Knots> best;
  const std::size_t stride = scaled.x.size() / kMaxTriedCount + 1;
  for (std::size_t sample = 1; sample + 1 < scaled.x.size(); sample += stride) {
    if (!is_free(sample, knots.at, knot)) continue;
    std::vector<std::size_t> at = knots.at;
    at[knot] = sample;
    std::sort(at.begin(), at.end());
    const auto pieces = fit_pieces(scaled, at, robust_scale);
    if (pieces && (!best || pieces->cost < best->pieces.cost)) best = Knots{at, *pieces};
  }
  if (!best) return false;
  knots = *best;
  return std::find(knots.at.begin(), knots.at.end(), before) == knots.at.end();
}

/// Adds one knot after the other where it reduces the loss most. After each, moves every knot in turn to its best
/// sample given the others.
std::optional<Knots> search(const ScaledPoints& scaled, std::size_t knot_count, double robust_scale) {
  Knots knots;
  while (knots.at.size() < knot_count) {
    // A new knot starts far from all samples, so place_best may put it at any.
    knots.at.push_back(scaled.x.size() * 4);
    place_best(scaled, knots.at.size() - 1, robust_scale, knots);
    if (knots.at.back() >= scaled.x.size()) return std::nullopt;
    for (int exchange = 0; exchange < kMaxExchangeCount; ++exchange) {
      bool has_moved = false;
      for (std::size_t knot = 0; knot < knots.at.size(); ++knot)
        has_moved |= place_best(scaled, knot, robust_scale, knots);
      if (!has_moved) break;
    }
  }
  return knots;
}

/// Time at 0, then slopes, then knots.
template <std::size_t kKnots>
using SegmentsParameters = std::array<double, 2 + 2 * kKnots>;

template <std::size_t kKnots, typename T>
T time_at(const T* parameters, double x) {
  const T* slopes = parameters + 1;
  const T* knots = parameters + 2 + kKnots;
  T time = parameters[0];
  for (std::size_t i = 0; i < kKnots; ++i) time += slopes[i] * part_inside(x, i == 0 ? T(0) : knots[i - 1], knots[i]);
  const T beyond = x - knots[kKnots - 1];
  return beyond > T(0) ? T(time + slopes[kKnots] * beyond) : time;
}

template <std::size_t kKnots>
struct SegmentsResidual {
  double x;
  double time;

  template <typename T>
  bool operator()(const T* parameters, T* residual) const {
    residual[0] = time_at<kKnots>(parameters, x) / time - 1.0;
    return true;
  }
};

template <std::size_t kKnots>
double loss_of(const ScaledPoints& scaled, const SegmentsParameters<kKnots>& parameters, double robust_scale) {
  double sum = 0;
  for (std::size_t i = 0; i < scaled.x.size(); ++i)
    sum += huber_loss(time_at<kKnots>(parameters.data(), scaled.x[i]) / scaled.time[i] - 1, robust_scale);
  return sum;
}

template <std::size_t kKnots>
SegmentsParameters<kKnots> start_from(const ScaledPoints& scaled, const Knots& knots) {
  SegmentsParameters<kKnots> parameters{};
  for (std::size_t i = 0; i < kKnots + 2; ++i) parameters[i] = knots.pieces.coefficients(static_cast<Eigen::Index>(i));
  for (std::size_t i = 0; i < kKnots; ++i) parameters[2 + kKnots + i] = scaled.x[knots.at[i]];
  return parameters;
}

/// Fits all parameters with Ceres, so that the knots may lie between samples. Keeps the start unless the loss falls.
template <std::size_t kKnots>
SegmentsParameters<kKnots> refine(const ScaledPoints& scaled, const Knots& knots, double robust_scale) {
  const SegmentsParameters<kKnots> start = start_from<kKnots>(scaled, knots);
  SegmentsParameters<kKnots> parameters = start;
  ceres::Problem problem;
  auto* loss = new ceres::HuberLoss(robust_scale); // owned by the problem, however many residuals share it
  using Residual = SegmentsResidual<kKnots>;
  constexpr int kCount = 2 + 2 * static_cast<int>(kKnots);
  for (std::size_t i = 0; i < scaled.x.size(); ++i)
    problem.AddResidualBlock(
        new ceres::AutoDiffCostFunction<Residual, 1, kCount>(new Residual{scaled.x[i], scaled.time[i]}), loss,
        parameters.data());
  for (int i = 0; i < 2 + static_cast<int>(kKnots); ++i) problem.SetParameterLowerBound(parameters.data(), i, 0.0);
  for (std::size_t i = 0; i < kKnots; ++i) {
    const std::size_t at = knots.at[i];
    const int index = static_cast<int>(2 + kKnots + i);
    const double x = scaled.x[at];
    problem.SetParameterLowerBound(parameters.data(), index, x - kKnotFreedom * (x - scaled.x[at - 1]));
    problem.SetParameterUpperBound(parameters.data(), index, x + kKnotFreedom * (scaled.x[at + 1] - x));
  }
  const bool is_better = solve(problem) && loss_of<kKnots>(scaled, parameters, robust_scale) <
                                               loss_of<kKnots>(scaled, start, robust_scale);
  return is_better ? parameters : start;
}

template <std::size_t kKnots>
SegmentsCurve to_curve(const SegmentsParameters<kKnots>& parameters, const ScaledPoints& scaled,
                       planner::CurveAxis axis) {
  SegmentsCurve curve;
  curve.scale_x = axis == planner::CurveAxis::Bytes ? planner::kBytesPerMib : 1.0;
  const double units = curve.scale_x / scaled.x_scale; // scaled x per unit of the curve's formula
  double begin = 0, begin_time = parameters[0];
  for (std::size_t i = 0; i <= kKnots; ++i) {
    const double slope = parameters[1 + i];
    curve.pieces.push_back({0, slope * scaled.time_scale * units, (begin_time - slope * begin) * scaled.time_scale});
    if (i == kKnots) break;
    const double end = parameters[2 + kKnots + i];
    curve.knots_x.push_back(end * scaled.x_scale);
    begin_time += slope * (end - begin);
    begin = end;
  }
  return curve;
}

} // namespace

template <std::size_t kKnots>
std::optional<planner::CostCurve::Shape> fit_segments(const FamilyInput& input) {
  const ScaledPoints scaled = scale_points(input.points);
  const auto knots = search(scaled, kKnots, input.robust_scale);
  if (!knots) return std::nullopt;
  return to_curve<kKnots>(refine<kKnots>(scaled, *knots, input.robust_scale), scaled, input.axis);
}

template std::optional<planner::CostCurve::Shape> fit_segments<2>(const FamilyInput&);
template std::optional<planner::CostCurve::Shape> fit_segments<3>(const FamilyInput&);
template std::optional<planner::CostCurve::Shape> fit_segments<4>(const FamilyInput&);

} // namespace mc2::profiler::fit
