#pragma once

#include "mc2/planner/planner.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// The published recipe, docs/cost_model.md §3: a short block from three lower limits, long blocks that balance it.
/// Errors: Infeasible naming the step that has no solution.
[[nodiscard]] Result<Plan> plan_by_formula(const Problem& problem);

} // namespace mc2::planner::strategies
