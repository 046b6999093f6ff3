#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// One timing that a curve was fitted to, or that was left out.
struct CurveSample {
  double x = 0;       ///< rows, columns or bytes of the block
  double time_us = 0; ///< corrected for drift, as the fit does
  bool is_co_run = false;
  bool is_outlier = false;
};

/// The samples of one lane of one variant as its curve sees them, in their order; without those that cannot be fitted:
/// times or sizes that are not positive.
/// @param variant  planner::Variant::text()
[[nodiscard]] std::vector<CurveSample> curve_samples(const planner::Profile& profile, planner::Component component,
                                                     const std::string& variant);

/// How much longer a sample took than the model expects, relative: than the curve, slowed where the other lane was
/// busy, too. 0 where nothing is expected.
[[nodiscard]] double relative_residual(const planner::CostCurve& curve, double slowdown, const CurveSample& sample);

/// Every n-th, so that there are at most `most` (above 0).
[[nodiscard]] std::vector<CurveSample> thinned(const std::vector<CurveSample>& samples, std::size_t most);

} // namespace mc2::profiler

#pragma GCC visibility pop
