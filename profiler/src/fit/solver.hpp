#pragma once

#include <ceres/problem.h>

namespace mc2::profiler::fit {

/// Minimises a small dense problem in place, silently and on the calling thread; false when Ceres found no usable
/// parameters.
[[nodiscard]] bool solve(ceres::Problem& problem);

} // namespace mc2::profiler::fit
