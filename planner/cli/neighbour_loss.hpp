#pragma once

#include <vector>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/store/exporter.hpp"

namespace mc2::cli {

/// A cut for another length of the cut axis, as a program makes it that looks up the nearest m in a table: the blocks
/// of `cut` in order, then more blocks like its longest one. The last block takes what is left.
[[nodiscard]] planner::Cut stretched(const planner::Cut& cut, std::int64_t length);

/// Fills every item's neighbour_loss: the largest predicted loss of its stretched cut against the best plan, over eight
/// m between the item's m and the middle to each neighbour. The items must be of one operator, with ascending m. With
/// fewer than two items nothing is filled. Errors: as planner::make_plan and predict_cut.
[[nodiscard]] Result<void> add_neighbour_losses(std::vector<store::ExportItem>& items, const planner::CostModel& model,
                                                const planner::PlanOptions& options);

} // namespace mc2::cli
