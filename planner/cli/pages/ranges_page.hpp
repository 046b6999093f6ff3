#pragma once

#include <string>

#include "mc2/planner/plan_ranges.hpp"

namespace mc2::cli {

/// The readable page of the plans for a range of m: a row for each range, the m that no range covers, and what the
/// ranges cost.
[[nodiscard]] std::string ranges_page(const planner::PlanRanges& ranges, int width);

} // namespace mc2::cli
