#pragma once

#include <algorithm>

#include "mc2/planner/cost_curve.hpp"

namespace mc2::profiler::fit {

/// Relative standard deviation of a block's time around the curve: the cross-validated error or, for a curve without
/// one, its interval over planner::kNormal90, at most 5 %. 5 % where the curve states neither.
[[nodiscard]] inline double relative_error(const planner::CostCurve& curve) noexcept {
  if (curve.quality.cross_validated_rms > 0) return curve.quality.cross_validated_rms;
  constexpr double kUntold = 0.05;
  return curve.relative_interval > 0 ? std::min(curve.relative_interval / planner::kNormal90, kUntold) : kUntold;
}

} // namespace mc2::profiler::fit
