#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/topology.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// One measured time of a collective, e.g. a line of an nccl-tests log.
struct CollectivePoint {
  planner::CollectiveSpec spec;
  double us = 0;
};

inline constexpr std::size_t kMaxCalibrationPoints = 10'000;

struct CalibrateOptions {
  /// Least standard deviation of log(predicted / measured). It covers the error of the model itself: alpha-beta sums
  /// ignore congestion and protocol switches.
  double measurement_spread = 0.1;
};

/// The factor on one constant. It applies to all protocols.
struct CalibratedFactor {
  std::string name; ///< e.g. "inter.alpha_us"
  double factor = 1;
  double low = 1, high = 1;   ///< 90 % interval
  bool is_determined = false; ///< whether the points narrowed its spread to less than half of the assumed one
};

struct TopologyCalibration {
  planner::Topology topology;
  double error_before = 0; ///< median of |predicted / measured - 1|
  double error_after = 0;
  std::vector<CalibratedFactor> factors;
  /// One sentence: errors, the constants that the points do not determine, and the points that were left out.
  std::string text;
};

/// Scales the launch cost, latencies, bandwidths and network message time of a topology so that the fastest algorithm
/// takes the measured times.
///   method    maximum a posteriori with Ceres: minimises the squared log residuals plus the squared log factors, each
///             divided by its spread. A factor's spread is the topology's uncertainty where it states one, else a
///             factor of e for latencies and 0.1 for bandwidths.
///   spread    of a point: from the residuals of a first solution with measurement_spread and the degrees of freedom
///             that the determined constants leave; at least measurement_spread. It is multiplied by sqrt(points / 6)
///             where residuals of neighbouring sizes correlate, because the model's own errors do not average out.
///   outliers  points that the first solution misses by more than four deviations (1.48 times the median residual, at
///             least measurement_spread) are left out, unless they are more than a fifth of all. `text` names them.
///   result    a constant that the points do not determine keeps its published value and its spread; the topology's
///             uncertainty holds the spreads that remain.
///   interval  relative_interval is planner::kNormal90 times the residuals' spread, from the same degrees of freedom;
///             at least measurement_spread and at most planner::kMaxRelativeInterval.
/// Errors: CannotFit (no points, more than kMaxCalibrationPoints, or a time that is not finite and positive),
/// InvalidSpec and Infeasible as planner::collective_times, with the point's number in the field.
[[nodiscard]] Result<TopologyCalibration> calibrate_topology(const planner::Topology& topology,
                                                             std::span<const CollectivePoint> points,
                                                             const CalibrateOptions& options = {});

/// Predicted / measured - 1 for each point; the prediction is that of the fastest algorithm.
/// Errors: as calibrate_topology.
[[nodiscard]] Result<std::vector<double>> relative_errors(const planner::Topology& topology,
                                                          std::span<const CollectivePoint> points);

} // namespace mc2::profiler

#pragma GCC visibility pop
