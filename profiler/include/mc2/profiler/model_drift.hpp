#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// Samples of a lane that a verdict needs at least.
inline constexpr int kMinDriftSamples = 8;
/// A machine's speed differs this much from one hour to the next (docs/cost_model.md §13). Less does not count as
/// drift.
inline constexpr double kLeastDrift = 0.10;

/// The samples of one lane compared with its curve.
struct LaneDrift {
  std::string variant;
  planner::Component component = planner::Component::Matmul;
  int sample_count = 0;       ///< samples that are judged
  double median_residual = 0; ///< median of time / curve - 1
  double limit = 0;           ///< a larger |median_residual| is drift
  bool has_drifted = false;
};

struct ModelDrift {
  std::vector<LaneDrift> lanes; ///< lanes with at least one judged sample

  [[nodiscard]] bool has_drifted() const noexcept;
  /// The lanes that have drifted, in one line; empty when none has.
  [[nodiscard]] std::string text() const;
};

/// Tests whether samples disagree with a model that was fitted without them.
///   judged  samples of a variant that the model knows, taken alone, not marked as outliers, inside the curve's valid
///           range
///   limit   max(relative_interval of the curve, kLeastDrift)
///   drift   at least kMinDriftSamples are judged, and the median of their residuals lies outside +-limit
/// Where the model holds, a sample lies beyond a given side of the 90 % interval with probability 0.05. At least half
/// of 8 independent samples do so with probability 3.7e-4 (binomial), so the two sides together give a false alarm in
/// less than one of 1000 cases. docs/cost_model.md §13.
[[nodiscard]] ModelDrift find_drift(const planner::CostModel& model, std::span<const planner::Sample> samples);

} // namespace mc2::profiler

#pragma GCC visibility pop
