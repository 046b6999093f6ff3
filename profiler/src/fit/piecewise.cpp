#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include <ceres/autodiff_cost_function.h>
#include <ceres/loss_function.h>

#include "fit/family.hpp"
#include "fit/robust.hpp"
#include "fit/solver.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::profiler::fit {
namespace {

using planner::PiecewiseCurve;

constexpr std::size_t kMinLeftCount = 3;  // a quadratic has three coefficients
constexpr std::size_t kMinRightCount = 3; // a line meets any two points exactly
constexpr std::size_t kMinRightCountInFold = 2;
constexpr std::size_t kMaxGapCount = 24;
constexpr std::size_t kRefinedCount = 3;
constexpr int kKnotStepCount = 16;
/// The samples alone leave the knot free within its gap. This small weight of the jump, relative to one sample's
/// residual, puts the knot where the pieces meet.
constexpr double kJumpWeight = 0.1;
constexpr double kBelowNextSample = 1 - 1e-3;

/// The parameters that Ceres moves. All are >= 0, which keeps the curve positive and monotone:
///   left(x)  = q0 + s0 x + (s1 - s0) x^2 / (2 knot)      slope s0 at 0 and s1 at the knot
///   right(x) = left(knot) + jump + l1 (x - knot)
enum Parameter : int { kQ0, kS0, kS1, kL1, kJump, kKnot, kParameterCount };
using PiecewiseParameters = std::array<double, kParameterCount>;

template <typename T>
T left_time(const T* p, const T& x) {
  return p[kQ0] + p[kS0] * x + (p[kS1] - p[kS0]) * x * x / (2.0 * p[kKnot]);
}

template <typename T>
T right_time(const T* p, const T& x) {
  return left_time(p, p[kKnot]) + p[kJump] + p[kL1] * (x - p[kKnot]);
}

struct PiecewiseResidual {
  double x;
  double time;
  bool is_left; ///< the knot stays between two samples, so that a sample never changes sides

  template <typename T>
  bool operator()(const T* parameters, T* residual) const {
    const T fitted = is_left ? left_time(parameters, T(x)) : right_time(parameters, T(x));
    residual[0] = fitted / time - 1.0;
    return true;
  }
};

struct JumpResidual {
  double time; ///< time of the last sample at or before the knot

  template <typename T>
  bool operator()(const T* parameters, T* residual) const {
    residual[0] = kJumpWeight * parameters[kJump] / time;
    return true;
  }
};

/// The knot lies at or after sample `last_left` and before the next one.
struct Candidate {
  std::size_t last_left = 0;
  PiecewiseParameters parameters{};
  double cost = 0;
};

bool is_cheaper(const Candidate& a, const Candidate& b) { return a.cost < b.cost; }

std::vector<double> errors_of(const ScaledPoints& scaled, const Candidate& candidate) {
  std::vector<double> errors(scaled.x.size());
  const double* p = candidate.parameters.data();
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const double fitted = i <= candidate.last_left ? left_time(p, scaled.x[i]) : right_time(p, scaled.x[i]);
    errors[i] = ratio_error(fitted, scaled.time[i]);
  }
  return errors;
}

double cost_of(const ScaledPoints& scaled, const Candidate& candidate, double robust_scale) {
  const double jump = kJumpWeight * candidate.parameters[kJump] / scaled.time[candidate.last_left];
  return capped_cost(errors_of(scaled, candidate), robust_scale) + jump;
}

/// Largest knot of a gap: the next sample stays on the right.
double gap_end(const ScaledPoints& scaled, std::size_t last_left) {
  const double from = scaled.x[last_left];
  return from + (scaled.x[last_left + 1] - from) * kBelowNextSample;
}

/// Moves the knot through its gap to the place where the two pieces are closest and the left one does not fall.
PiecewiseParameters join_pieces(const ScaledPoints& scaled, std::size_t last_left, const Coefficients& left,
                                const Coefficients& right) {
  const double from = scaled.x[last_left];
  const double to = gap_end(scaled, last_left);
  const double q2 = (left(2) - left(1)) / (2 * from);
  PiecewiseParameters best{};
  double best_distance = std::numeric_limits<double>::infinity();
  for (int step = 0; step <= kKnotStepCount; ++step) {
    const double knot = from + (to - from) * step / kKnotStepCount;
    const double end_slope = step == 0 ? left(2) : left(1) + 2 * q2 * knot;
    if (end_slope < 0) break;
    const double jump = right(0) + right(1) * (knot - from) - (left(0) + left(1) * knot + q2 * knot * knot);
    if (std::abs(jump) >= best_distance) continue;
    best_distance = std::abs(jump);
    best = {left(0), left(1), end_slope, right(1), std::max(jump, 0.0), knot};
  }
  return best;
}

/// Fits both pieces for one gap in closed form, each robustly and on its own.
std::optional<Candidate> start(const ScaledPoints& scaled, std::size_t last_left, double robust_scale) {
  const std::size_t left_count = last_left + 1;
  const std::size_t right_count = scaled.x.size() - left_count;
  const double knot = scaled.x[last_left];
  Basis left_basis(static_cast<Eigen::Index>(left_count), 3);
  for (std::size_t i = 0; i < left_count; ++i) {
    const double bend = scaled.x[i] * scaled.x[i] / (2 * knot);
    left_basis.row(static_cast<Eigen::Index>(i)) << 1.0, scaled.x[i] - bend, bend;
  }
  Basis right_basis(static_cast<Eigen::Index>(right_count), 2);
  for (std::size_t i = 0; i < right_count; ++i) {
    right_basis.row(static_cast<Eigen::Index>(i)) << 1.0, scaled.x[left_count + i] - knot;
  }
  const std::span<const double> times(scaled.time);
  const auto left = nonnegative_start(left_basis, times.first(left_count), robust_scale);
  const auto right = nonnegative_start(right_basis, times.last(right_count), robust_scale);
  if (!left || !right) return std::nullopt;
  Candidate candidate{last_left, join_pieces(scaled, last_left, *left, *right), 0};
  candidate.cost = cost_of(scaled, candidate, robust_scale);
  return candidate;
}

void add_residuals(ceres::Problem& problem, const ScaledPoints& scaled, const Candidate& candidate, double robust_scale,
                   double* parameters) {
  const std::vector<bool> inliers = find_inliers(errors_of(scaled, candidate), robust_scale);
  auto* loss = new ceres::HuberLoss(robust_scale); // owned by the problem, however many residuals share it
  for (std::size_t i = 0; i < scaled.x.size(); ++i) {
    if (!inliers[i]) continue;
    auto* residual = new PiecewiseResidual{scaled.x[i], scaled.time[i], i <= candidate.last_left};
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<PiecewiseResidual, 1, kParameterCount>(residual), loss,
                             parameters);
  }
  auto* jump = new JumpResidual{scaled.time[candidate.last_left]};
  problem.AddResidualBlock(new ceres::AutoDiffCostFunction<JumpResidual, 1, kParameterCount>(jump), nullptr,
                           parameters);
}

bool refine(const ScaledPoints& scaled, double robust_scale, Candidate& candidate) {
  PiecewiseParameters parameters = candidate.parameters;
  ceres::Problem problem;
  add_residuals(problem, scaled, candidate, robust_scale, parameters.data());
  for (int i = 0; i < kKnot; ++i) problem.SetParameterLowerBound(parameters.data(), i, 0.0);
  problem.SetParameterLowerBound(parameters.data(), kKnot, scaled.x[candidate.last_left]);
  problem.SetParameterUpperBound(parameters.data(), kKnot, gap_end(scaled, candidate.last_left));
  if (!solve(problem)) return false;
  candidate.parameters = parameters;
  candidate.cost = cost_of(scaled, candidate, robust_scale);
  return true;
}

/// Starts for the gaps from `first` to `last`, the cheapest first: every gap when there are few, otherwise a coarse
/// grid of gaps and then every gap around the best.
std::vector<Candidate> starts(const ScaledPoints& scaled, std::size_t first, std::size_t last, double robust_scale) {
  std::vector<Candidate> candidates;
  const auto add = [&](std::size_t gap) {
    if (auto candidate = start(scaled, gap, robust_scale)) candidates.push_back(*candidate);
  };
  const std::size_t stride = (last - first) / kMaxGapCount + 1;
  for (std::size_t gap = first; gap <= last; gap += stride) add(gap);
  if (stride > 1 && !candidates.empty()) {
    const std::size_t centre = std::min_element(candidates.begin(), candidates.end(), is_cheaper)->last_left;
    for (std::size_t gap = std::max(first + stride, centre + 1) - stride; gap < std::min(centre + stride, last + 1);
         ++gap) {
      if (gap != centre) add(gap);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(), is_cheaper);
  return candidates;
}

PiecewiseCurve to_curve(const PiecewiseParameters& p, const ScaledPoints& scaled, planner::CurveAxis axis) {
  PiecewiseCurve curve;
  curve.scale_x = axis == planner::CurveAxis::Bytes ? planner::kBytesPerMib : 1.0;
  const double units = curve.scale_x / scaled.x_scale; // scaled x per unit of the curve's formula
  curve.knot_x = p[kKnot] * scaled.x_scale;
  curve.q0 = p[kQ0] * scaled.time_scale;
  curve.q1 = p[kS0] * scaled.time_scale * units;
  curve.q2 = (p[kS1] - p[kS0]) / (2 * p[kKnot]) * scaled.time_scale * units * units;
  curve.l1 = p[kL1] * scaled.time_scale * units;
  curve.l0 = right_time(p.data(), 0.0) * scaled.time_scale;
  return curve;
}

} // namespace

std::optional<planner::CostCurve::Shape> fit_piecewise(const FamilyInput& input) {
  const std::size_t min_right = input.is_fold ? kMinRightCountInFold : kMinRightCount;
  if (input.points.size() < kMinLeftCount + min_right) return std::nullopt;
  const ScaledPoints scaled = scale_points(input.points);
  std::vector<Candidate> candidates =
      starts(scaled, kMinLeftCount - 1, scaled.x.size() - min_right - 1, input.robust_scale);
  if (candidates.size() > kRefinedCount) candidates.resize(kRefinedCount);
  std::erase_if(candidates, [&](Candidate& candidate) { return !refine(scaled, input.robust_scale, candidate); });
  if (candidates.empty()) return std::nullopt;
  const Candidate& best = *std::min_element(candidates.begin(), candidates.end(), is_cheaper);
  return to_curve(best.parameters, scaled, input.axis);
}

} // namespace mc2::profiler::fit
