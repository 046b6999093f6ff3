#include "mc2/profiler/calibrate_topology.hpp"

#include <ceres/ceres.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "fit/solver.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

using planner::CollectiveSpec;
using planner::kProtocolConstants;
using planner::Topology;

constexpr int kCount = static_cast<int>(kProtocolConstants.size());
constexpr double kMaxLogFactor = 6.9;    ///< a factor of 1000: beyond it the topology is another one
constexpr double kKnownLogSpread = 1e-3; ///< least spread, for a constant that the topology states as exact

/// Standard deviations of logarithms, for a topology that does not state the uncertainty of its constants. Published
/// latencies come from other machines, hence a factor of e either way; bandwidths are of the same hardware, and large
/// messages come about this close.
constexpr double kLatencyLogSpread = 1, kBandwidthLogSpread = 0.1;

using Factors = std::array<double, kCount>;

/// Standard deviations of log factors.
Factors prior_spreads(const Topology& topology) {
  Factors spreads{};
  std::ranges::transform(kProtocolConstants, spreads.begin(), [&](const planner::ProtocolConstant& constant) {
    if (topology.uncertainty == planner::ConstantSpread{})
      return constant.is_bandwidth ? kBandwidthLogSpread : kLatencyLogSpread;
    return std::max(kKnownLogSpread, std::log1p(topology.uncertainty.*constant.spread) / planner::kNormal90);
  });
  return spreads;
}

Topology scaled(Topology topology, const double* log_factors) {
  for (std::size_t i = 0; i < kProtocolConstants.size(); ++i)
    topology = with_scaled(std::move(topology), kProtocolConstants[i], std::exp(log_factors[i]));
  return topology;
}

struct PointResidual {
  const Topology& topology;
  const CollectivePoint& point;
  double spread;

  bool operator()(const double* log_factors, double* residual) const {
    const auto time = planner::best_collective_time(scaled(topology, log_factors), point.spec);
    if (!time) return false;
    *residual = std::log(time.value().us / point.us) / spread;
    return std::isfinite(*residual);
  }
};

struct PublishedResidual {
  Factors spreads;

  bool operator()(const double* log_factors, double* residual) const {
    for (int i = 0; i < kCount; ++i) residual[i] = log_factors[i] / spreads[static_cast<std::size_t>(i)];
    return true;
  }
};

struct Solution {
  Factors log_factors{};
  Factors priors{}, spreads{}; ///< standard deviations of the log factors, before and after
};

void add_residuals(ceres::Problem& problem, const Topology& topology, std::span<const CollectivePoint> points,
                   double measurement_spread, const Factors& priors, double* log_factors) {
  for (const auto& point : points)
    problem.AddResidualBlock(new ceres::NumericDiffCostFunction<PointResidual, ceres::CENTRAL, 1, kCount>(
                                 new PointResidual{topology, point, measurement_spread}),
                             nullptr, log_factors);
  problem.AddResidualBlock(new ceres::NumericDiffCostFunction<PublishedResidual, ceres::CENTRAL, kCount, kCount>(
                               new PublishedResidual{priors}),
                           nullptr, log_factors);
  for (int i = 0; i < kCount; ++i) {
    problem.SetParameterLowerBound(log_factors, i, -kMaxLogFactor);
    problem.SetParameterUpperBound(log_factors, i, kMaxLogFactor);
  }
}

Solution solve(const Topology& topology, std::span<const CollectivePoint> points, const CalibrateOptions& options) {
  Solution solution;
  solution.priors = solution.spreads = prior_spreads(topology);
  double* const parameters = solution.log_factors.data();
  ceres::Problem problem;
  add_residuals(problem, topology, points, options.measurement_spread, solution.priors, parameters);
  fit::solve_roughly(problem);

  ceres::Covariance::Options covariance_options;
  covariance_options.algorithm_type = ceres::DENSE_SVD;
  ceres::Covariance covariance(covariance_options);
  std::array<double, kCount * kCount> values{};
  // The prior makes the covariance regular. If computing it fails nevertheless, no constant counts as determined.
  if (covariance.Compute(std::vector<const double*>{parameters}, &problem) &&
      covariance.GetCovarianceBlock(parameters, parameters, values.data()))
    for (int i = 0; i < kCount; ++i)
      solution.spreads[static_cast<std::size_t>(i)] = std::sqrt(values[static_cast<std::size_t>(i * kCount + i)]);
  return solution;
}

std::vector<CalibratedFactor> factors_of(const Solution& solution) {
  std::vector<CalibratedFactor> factors;
  for (std::size_t i = 0; i < kProtocolConstants.size(); ++i) {
    const double center = solution.log_factors[i], spread = solution.spreads[i];
    factors.push_back({std::string(kProtocolConstants[i].name), std::exp(center),
                       std::exp(center - planner::kNormal90 * spread), std::exp(center + planner::kNormal90 * spread),
                       spread < 0.5 * solution.priors[i]});
  }
  return factors;
}

planner::ConstantSpread uncertainty_of(const Solution& solution) {
  planner::ConstantSpread uncertainty;
  for (std::size_t i = 0; i < kProtocolConstants.size(); ++i)
    uncertainty.*kProtocolConstants[i].spread =
        std::min(std::expm1(planner::kNormal90 * solution.spreads[i]), planner::kMaxConstantSpread);
  return uncertainty;
}

double median_size(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  return quantile(errors, 0.5);
}

double rms_log(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += std::pow(std::log1p(error), 2);
  return std::sqrt(sum / static_cast<double>(errors.size()));
}

/// "all_reduce on 8, 16 ranks"
std::string what_text(std::span<const CollectivePoint> points) {
  std::set<std::string> collectives;
  std::set<int> ranks;
  for (const auto& point : points) {
    collectives.emplace(to_string(point.spec.collective));
    ranks.insert(point.spec.world_size);
  }
  std::string text = std::to_string(points.size()) + " points of";
  for (const auto& name : collectives) text += (name == *collectives.begin() ? " " : ", ") + name;
  text += " on";
  for (const int count : ranks) text += (count == *ranks.begin() ? " " : ", ") + std::to_string(count);
  return text + " ranks";
}

std::string summary_text(const TopologyCalibration& result) {
  std::string open;
  for (const auto& factor : result.factors)
    if (!factor.is_determined) open += (open.empty() ? "" : ", ") + factor.name;
  return result.topology.calibration + "; median error " + percent_text(result.error_before) + " before, " +
         percent_text(result.error_after) + " after" +
         (open.empty() ? "" : "; not determined by these points: " + open);
}

Result<void> validate(std::span<const CollectivePoint> points) {
  if (points.empty() || points.size() > kMaxCalibrationPoints)
    return Error{
        ErrorCode::CannotFit, "points",
        "has " + std::to_string(points.size()) + " entries; legal: 1 to " + std::to_string(kMaxCalibrationPoints)};
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!(points[i].us > 0) || !std::isfinite(points[i].us))
      return Error{ErrorCode::CannotFit, "points[" + std::to_string(i) + "].us", "is not a positive, finite time"};
  return {};
}

} // namespace

Result<std::vector<double>> relative_errors(const Topology& topology, std::span<const CollectivePoint> points) {
  MC2_TRY(validate(points));
  std::vector<double> errors;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto time = planner::best_collective_time(topology, points[i].spec);
    if (!time)
      return Error{time.error().code, "points[" + std::to_string(i) + "]." + time.error().field, time.error().message};
    errors.push_back(time.value().us / points[i].us - 1);
  }
  return errors;
}

Result<TopologyCalibration> calibrate_topology(const Topology& topology, std::span<const CollectivePoint> points,
                                               const CalibrateOptions& options) {
  MC2_ASSIGN(const auto before, relative_errors(topology, points));
  const Solution solution = solve(topology, points, options);
  TopologyCalibration result;
  result.topology = scaled(topology, solution.log_factors.data());
  MC2_ASSIGN(const auto after, relative_errors(result.topology, points));
  result.error_before = median_size(before);
  result.error_after = median_size(after);
  result.factors = factors_of(solution);
  result.topology.uncertainty = uncertainty_of(solution);
  result.topology.calibration = what_text(points);
  result.topology.relative_interval = std::min(
      std::max(planner::kNormal90 * rms_log(after), options.measurement_spread), planner::kMaxRelativeInterval);
  result.text = summary_text(result);
  return result;
}

} // namespace mc2::profiler
