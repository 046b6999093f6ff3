#pragma once

#include <span>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/profiler/fit.hpp"

namespace mc2::profiler::fit {

/// The points checked, merged by size, thinned to at most 128 sizes, and ascending.
/// Errors: CannotFit as fit_curve, except for times that fall.
[[nodiscard]] Result<std::vector<FitPoint>> prepare_points(std::span<const FitPoint> points, int min_point_count);

/// Marks few points, at most one in five, without which nearly no two sizes contradict each other. Two sizes contradict
/// each other when the larger one is faster, or costs more per unit of size, by more than a factor of 1.25: the cost of
/// a block has a fixed part and a part that grows with size. Marks none where so few points do not explain the
/// contradictions, or where another point might as well be the wrong one.
[[nodiscard]] std::vector<bool> find_contradicting(std::span<const FitPoint> points);

/// Checks that times grow with size. Errors: CannotFit when in more than one in five pairs of sizes the larger size is
/// faster by more than 10 % and more than twice the standard error of the two times. `points` ascend.
[[nodiscard]] Result<void> check_growth(std::span<const FitPoint> points);

} // namespace mc2::profiler::fit
