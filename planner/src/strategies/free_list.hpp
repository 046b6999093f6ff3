#pragma once

#include "mc2/planner/planner.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// The fastest list of blocks of any lengths, over every variant, for backends that can run one; the answer also says
/// what the restriction to short and long blocks would cost. Cut points are multiples of the alignment (coarser on axes
/// of more than kMaxFreeUnitCount of them), a ragged rest lies in the first or the last block.
/// Dynamic programming over the cut points: of all lists with the same cut point, those are kept that no other list
/// beats in both the end of the first lane and the backlog of the second (Pareto), and whose lower bound is not above
/// the best short/long plan. Exact for the expected makespan. Source: docs/cost_model.md §5.
[[nodiscard]] Plan plan_by_free_list(const Problem& problem);

} // namespace mc2::planner::strategies
