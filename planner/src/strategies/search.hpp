#pragma once

#include "mc2/planner/planner.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// The cut of the short/long family, over every variant, with the shortest simulated makespan, or the uncut one.
/// Exact: every candidate is simulated or excluded by a lower bound (docs/cost_model.md §5).
[[nodiscard]] Plan plan_by_search(const Problem& problem);

/// A candidate that was not chosen: its prediction, and why it lost to `plan`, or why it did although it is faster by
/// the curves.
[[nodiscard]] RunnerUp to_runner_up(const Problem& problem, const Plan& plan, const VariantCost& cost, const Cut& cut);

} // namespace mc2::planner::strategies
