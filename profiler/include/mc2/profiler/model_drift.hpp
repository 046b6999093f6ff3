#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// Fewer samples of a lane say nothing.
inline constexpr int kMinDriftSamples = 8;
/// What a machine's speed differs by from one hour to the next (docs/cost_model.md §13): less is no drift.
inline constexpr double kLeastDrift = 0.10;

/// How samples of one lane lie against its curve.
struct LaneDrift {
  std::string variant;
  planner::Component component = planner::Component::Matmul;
  int sample_count = 0;       ///< that are judged
  double median_residual = 0; ///< of time / curve - 1
  double limit = 0;           ///< beyond which it is drift
  bool has_drifted = false;
};

struct ModelDrift {
  std::vector<LaneDrift> lanes; ///< that have samples

  [[nodiscard]] bool has_drifted() const noexcept;
  /// What has drifted, one line; empty when nothing has.
  [[nodiscard]] std::string text() const;
};

/// Whether samples disagree with a model that was fitted without them.
///   judged   samples of a variant that the model knows, taken alone, not marked as outliers, inside the curve's valid
///   range limit    max(relative_interval of the curve, kLeastDrift) drift    at least kMinDriftSamples are judged, and
///   the median of their residuals lies outside +-limit
/// Where the model holds, a sample lies on one side of the 90 % interval with probability 0.05; half of 8 independent
/// ones do so with 3.7e-4 (binomial), so both sides together give a false alarm in less than one of 1000 cases.
/// docs/cost_model.md §13.
[[nodiscard]] ModelDrift find_drift(const planner::CostModel& model, std::span<const planner::Sample> samples);

} // namespace mc2::profiler

#pragma GCC visibility pop
