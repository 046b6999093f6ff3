#pragma once

#include <ceres/problem.h>

namespace mc2::profiler::fit {

/// Minimises a small dense problem in place, silently and on the calling thread; false when Ceres found no usable
/// parameters.
[[nodiscard]] bool solve(ceres::Problem& problem);
/// The same to Ceres's own tolerances, whatever comes of it.
void solve_roughly(ceres::Problem& problem);

} // namespace mc2::profiler::fit
