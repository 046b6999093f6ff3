#pragma once

#include <string>

#include "mc2/planner/plan_ranges.hpp"

namespace mc2::cli {

/// The plans of a range of m: one row per range, what no range covers, and how much the ranges cost.
[[nodiscard]] std::string ranges_page(const planner::PlanRanges& ranges, int width);

} // namespace mc2::cli
