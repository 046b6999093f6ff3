#pragma once

#include "mc2/planner/planner.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// The fastest list of blocks of any lengths, over every variant, for backends that can run such lists. The answer also
/// says what the restriction to short and long blocks would cost. Cut points are multiples of the alignment, coarser on
/// an axis with more than kMaxFreeUnitCount of them (free_list.cpp); a ragged rest lies in the first or the last block.
/// Dynamic programming over the cut points: of all lists that end at the same cut point, it keeps those that no other
/// list beats in both paths of PipelineState (Pareto), and whose lower bound is below the best plan so far. Exact for
/// the expected makespan. Source: docs/cost_model.md §5.
[[nodiscard]] Plan plan_by_free_list(const Problem& problem);

} // namespace mc2::planner::strategies
