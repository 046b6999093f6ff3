#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// One timing of a lane, whether the fit used it or left it out.
struct CurveSample {
  double x = 0;       ///< rows, columns or bytes of the block
  double time_us = 0; ///< corrected for drift as in the fit
  bool is_co_run = false;
  bool is_outlier = false;
};

/// The samples of one lane of one variant as the fit of its curve sees them, in their order. Samples with a time or
/// size that is not positive are left out, because they cannot be fitted.
/// @param variant  planner::Variant::text()
[[nodiscard]] std::vector<CurveSample> curve_samples(const planner::Profile& profile, planner::Component component,
                                                     const std::string& variant);

/// Measured / expected - 1. The expected time is the curve's, times `slowdown` for a co-run sample. 0 where the
/// expected time is not above 0.
[[nodiscard]] double relative_residual(const planner::CostCurve& curve, double slowdown, const CurveSample& sample);

/// Every n-th sample, with n such that at most `most` (above 0) are left.
[[nodiscard]] std::vector<CurveSample> thinned(const std::vector<CurveSample>& samples, std::size_t most);

} // namespace mc2::profiler

#pragma GCC visibility pop
