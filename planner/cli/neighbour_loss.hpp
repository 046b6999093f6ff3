#pragma once

#include <vector>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/store/exporter.hpp"

namespace mc2::cli {

/// A cut made for another length of the cut axis: its blocks from the front while they last, then more of its
/// longest; the last takes the rest. What a program does that looks the nearest m up in a table.
[[nodiscard]] planner::Cut stretched(const planner::Cut& cut, std::int64_t length);

/// Fills every item's neighbour_loss: of eight m between it and the middle to each neighbour, the largest predicted
/// loss of its stretched cut against that m's own best plan. Items of one operator, ascending m; none with fewer than
/// two. Errors: as planner::make_plan and predict_cut.
[[nodiscard]] Result<void> add_neighbour_losses(std::vector<store::ExportItem>& items, const planner::CostModel& model,
                                                const planner::PlanOptions& options);

} // namespace mc2::cli
