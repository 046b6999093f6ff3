#pragma once

#include <span>

#include "mc2/planner/planner.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// One cut for several tables of counts: the one whose makespan is least in their mean, or in the quantile of them that
/// the options name where it is another than 0.5. Times are those of the table whose makespan is nearest to that.
/// @param tables the same problem by each of them
[[nodiscard]] Plan plan_over_tables(std::span<const Problem> tables, double quantile);

/// The cut of the short/long family, over every variant, with the shortest simulated makespan, or the uncut one.
/// Exact: every candidate is simulated or excluded by a lower bound (docs/cost_model.md §5).
[[nodiscard]] Plan plan_by_search(const Problem& problem);

/// A candidate that was not chosen: its prediction, and why it lost to `plan`, or why it did although it is faster by
/// the curves.
[[nodiscard]] RunnerUp to_runner_up(const Problem& problem, const Plan& plan, const VariantCost& cost, const Cut& cut);

} // namespace mc2::planner::strategies
