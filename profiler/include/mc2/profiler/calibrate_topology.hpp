#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/collective.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/topology.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// How long a collective took, e.g. a line of an nccl-tests log.
struct CollectivePoint {
  planner::CollectiveSpec spec;
  double us = 0;
};

inline constexpr std::size_t kMaxCalibrationPoints = 10'000;

struct CalibrateOptions {
  /// Expected error of the model itself, relative: alpha-beta sums know no congestion and no protocol switch.
  double measurement_spread = 0.1;
  /// Of a topology that does not say how far off its constants may be. Published latencies are of other machines: a
  /// factor of e either way is one standard deviation.
  double latency_log_spread = 1;
  /// Published bandwidths are of the same hardware, and large messages reach them within about this.
  double bandwidth_log_spread = 0.1;
};

/// One factor on a constant of all protocols alike.
struct CalibratedFactor {
  std::string name; ///< e.g. "inter.alpha_us"
  double factor = 1;
  double low = 1, high = 1;   ///< 90 % interval
  bool is_determined = false; ///< the points narrowed it to less than half of what was assumed beforehand
};

struct TopologyCalibration {
  planner::Topology topology;
  double error_before = 0; ///< median of |predicted / measured - 1|
  double error_after = 0;
  std::vector<CalibratedFactor> factors;
  std::string text; ///< one sentence: errors, and the constants that the points do not determine
};

/// Scales the launch cost, latencies, bandwidths and network message time of a topology so that the fastest algorithm
/// takes what was measured. Maximum a posteriori: squared log residuals plus squared log factors, each over its
/// spread, which is the topology's uncertainty where it has one; solved with Ceres. A constant that the points say
/// nothing about keeps its published value and its spread; the result's uncertainty says what is left of the others'.
/// Its relative_interval is planner::kNormal95 times the rms log residual, and never narrower than what was measured
/// suggests: at least measurement_spread. Errors: CannotFit (no points, too many, or a time that is not finite and
/// positive), InvalidSpec and Infeasible as planner::collective_times, with the point's number in the field.
[[nodiscard]] Result<TopologyCalibration> calibrate_topology(const planner::Topology& topology,
                                                             std::span<const CollectivePoint> points,
                                                             const CalibrateOptions& options = {});

/// Predicted by the fastest algorithm over measured, minus 1, of each point. Errors: as calibrate_topology.
[[nodiscard]] Result<std::vector<double>> relative_errors(const planner::Topology& topology,
                                                          std::span<const CollectivePoint> points);

} // namespace mc2::profiler

#pragma GCC visibility pop
