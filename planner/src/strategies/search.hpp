#pragma once

#include "mc2/planner/planner.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// The cut of the short/long family, over every variant, with the shortest simulated makespan, or the uncut one.
/// Exact: every candidate is simulated or excluded by a lower bound (docs/cost_model.md §5).
[[nodiscard]] Plan plan_by_search(const Problem& problem);

} // namespace mc2::planner::strategies
