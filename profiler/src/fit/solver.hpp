#pragma once

#include <ceres/problem.h>

namespace mc2::profiler::fit {

/// Minimises a small dense problem in place, silently and on the calling thread. False when Ceres found no usable
/// parameters.
[[nodiscard]] bool solve(ceres::Problem& problem);
/// Minimises a problem in place with Ceres's default tolerances. Whether the solution is usable is not reported.
void solve_roughly(ceres::Problem& problem);

} // namespace mc2::profiler::fit
