#include "mc2/profiler/calibrate_topology.hpp"

#include <ceres/ceres.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fit/robust.hpp"
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

  [[nodiscard]] bool is_determined(std::size_t factor) const { return spreads[factor] < 0.5 * priors[factor]; }
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

Solution solve(const Topology& topology, std::span<const CollectivePoint> points, double measurement_spread) {
  Solution solution;
  solution.priors = solution.spreads = prior_spreads(topology);
  double* const parameters = solution.log_factors.data();
  ceres::Problem problem;
  add_residuals(problem, topology, points, measurement_spread, solution.priors, parameters);
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
                       solution.is_determined(i)});
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

/// log(predicted / measured) for each point.
std::vector<double> log_residuals(std::vector<double> errors) {
  for (double& error : errors) error = std::log1p(error);
  return errors;
}

/// Standard deviation of a point's log residual, from the degrees of freedom that the constants leave.
double spread_of(const std::vector<double>& residuals, const Solution& solution) {
  double sum = 0;
  for (const double residual : residuals) sum += residual * residual;
  double degrees = static_cast<double>(residuals.size());
  for (std::size_t i = 0; i < kProtocolConstants.size(); ++i) degrees -= solution.is_determined(i) ? 1 : 0;
  return std::sqrt(sum / std::max(1.0, degrees));
}

/// By what to multiply the spread of points whose errors are alike at neighbouring sizes, as the errors of the model
/// itself are: however many there are, they tell no more than kFewPoints independent ones. 1 where the errors do not
/// correlate (lag-one autocorrelation, one-sided at 5 %).
double dependence(std::span<const CollectivePoint> points, const std::vector<double>& residuals) {
  constexpr std::size_t kLeastPairs = 4;
  constexpr double kFewPoints = 6;
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto group = [&](std::size_t i) { return std::pair(points[i].spec.collective, points[i].spec.world_size); };
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::pair(group(i), points[i].spec.message_bytes); });
  double products = 0, squares = 0;
  std::size_t pairs = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::size_t here = order[i], before = order[i - 1];
    if (group(here) != group(before)) continue;
    products += residuals[here] * residuals[before];
    squares += (residuals[here] * residuals[here] + residuals[before] * residuals[before]) / 2;
    ++pairs;
  }
  if (pairs < kLeastPairs || !(products > planner::kNormal90 / std::sqrt(static_cast<double>(pairs)) * squares))
    return 1;
  return std::sqrt(std::max(1.0, static_cast<double>(points.size()) / kFewPoints));
}

/// Whether each point agrees with the others: its residual is at most kMostDeviations deviations.
std::vector<bool> find_agreeing(const std::vector<double>& residuals, double measurement_spread) {
  constexpr double kMostDeviations = 4;
  const double limit = kMostDeviations * std::max(measurement_spread, kNormalMad * median_size(residuals));
  std::vector<bool> agrees;
  for (const double residual : residuals) agrees.push_back(std::abs(residual) <= limit);
  const auto odd_count = static_cast<double>(std::ranges::count(agrees, false));
  if (odd_count > fit::kMaxOutlierShare * static_cast<double>(agrees.size())) agrees.assign(agrees.size(), true);
  return agrees;
}

/// "; left out, because the others contradict it: points[3] (3.1x the time that they give)"
std::string odd_text(const std::vector<bool>& agrees, const std::vector<double>& residuals) {
  std::vector<std::string> odd;
  for (std::size_t i = 0; i < agrees.size(); ++i)
    if (!agrees[i])
      odd.push_back("points[" + std::to_string(i) + "] (" + number(std::exp(-residuals[i]), "%.2g") +
                    "x the time that they give)");
  return odd.empty() ? "" : "; left out, because the others contradict it: " + list_text(odd);
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
  std::vector<std::string> open;
  for (const auto& factor : result.factors)
    if (!factor.is_determined) open.push_back(factor.name);
  return result.topology.calibration + "; median error " + percent_text(result.error_before) + " before, " +
         percent_text(result.error_after) + " after" +
         (open.empty() ? "" : "; not determined by these points: " + list_text(open));
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
  const auto residuals_of = [&](const Solution& solution,
                                std::span<const CollectivePoint> some) -> Result<std::vector<double>> {
    MC2_ASSIGN(auto errors, relative_errors(scaled(topology, solution.log_factors.data()), some));
    return log_residuals(std::move(errors));
  };
  const Solution of_all = solve(topology, points, options.measurement_spread);
  MC2_ASSIGN(const auto all_residuals, residuals_of(of_all, points));
  const std::vector<bool> agrees = find_agreeing(all_residuals, options.measurement_spread);
  std::vector<CollectivePoint> used;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (agrees[i]) used.push_back(points[i]);
  const Solution first = used.size() == points.size() ? of_all : solve(topology, used, options.measurement_spread);
  MC2_ASSIGN(const auto residuals, residuals_of(first, used));
  const double spread = std::max(options.measurement_spread, spread_of(residuals, first) * dependence(used, residuals));
  const Solution solution = spread > options.measurement_spread ? solve(topology, used, spread) : first;
  TopologyCalibration result;
  result.topology = scaled(topology, solution.log_factors.data());
  MC2_ASSIGN(const auto after, relative_errors(result.topology, points));
  MC2_ASSIGN(const auto left, residuals_of(solution, used));
  result.error_before = median_size(before);
  result.error_after = median_size(after);
  result.factors = factors_of(solution);
  result.topology.uncertainty = uncertainty_of(solution);
  result.topology.calibration = what_text(used);
  result.topology.relative_interval =
      std::min(std::max(planner::kNormal90 * spread_of(left, solution), options.measurement_spread),
               planner::kMaxRelativeInterval);
  result.text = summary_text(result) + odd_text(agrees, log_residuals(after));
  return result;
}

} // namespace mc2::profiler
