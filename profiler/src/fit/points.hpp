#pragma once

#include <span>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/profiler/fit.hpp"

namespace mc2::profiler::fit {

/// Checked, merged by size, thinned to at most 128 sizes, ascending.
/// Errors: CannotFit as fit_curve, except for times that fall.
[[nodiscard]] Result<std::vector<FitPoint>> prepare_points(std::span<const FitPoint> points, int min_point_count);

/// Marks the fewest points, at most one in five, without which (nearly) no two sizes contradict each other. Two sizes
/// contradict each other when the larger one is faster, or costs more per unit of size, by more than a factor
/// of 1.25: the cost of a block has a fixed part and a part that grows with it. Marks none where no few points are to
/// blame.
[[nodiscard]] std::vector<bool> find_contradicting(std::span<const FitPoint> points);

/// Errors: CannotFit when more than one pair of sizes in five shows the larger one faster, by more than 10 % and
/// twice the standard error of the two times. `points` ascend.
[[nodiscard]] Result<void> check_growth(std::span<const FitPoint> points);

} // namespace mc2::profiler::fit
