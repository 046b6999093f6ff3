#pragma once

#include <span>

#include "mc2/planner/planner.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// One cut for several tables of counts: the cut with the least mean of the tables' makespans or, if `quantile` is not
/// 0.5, with the least such quantile of them. The plan's times are those of the table whose makespan is nearest to that
/// value.
/// @param tables the same problem with each table of counts
[[nodiscard]] Plan plan_over_tables(std::span<const Problem> tables, double quantile);

/// The cut of the short/long family, over every variant, with the best objective, or the uncut plan.
/// Exact: every candidate is scored (docs/cost_model.md §5). A cut whose gain is not significant gives way to uncut.
[[nodiscard]] Plan plan_by_search(const Problem& problem);

/// A candidate that was not chosen, with its prediction and the reason why it lost to `plan`; it may be faster by the
/// curves.
[[nodiscard]] RunnerUp to_runner_up(const Problem& problem, const Plan& plan, const VariantCost& cost, const Cut& cut);

} // namespace mc2::planner::strategies
