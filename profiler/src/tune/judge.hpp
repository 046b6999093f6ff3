#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/profiler/race.hpp"

namespace mc2::profiler {

/// The plan to keep after a race: winner_of() the race with its validation and the losers, or the serial plan where no
/// cut won. The model predicts the plan where it knows the variant.
/// @param contenders  in the order of race.contenders
/// Errors: as planner::make_plan.
[[nodiscard]] Result<planner::Plan> judge(const planner::OpSpec& op, const planner::CostModel& model, const Race& race,
                                          std::span<const planner::Plan> contenders,
                                          const planner::PlanOptions& options);

/// Why no cut is kept, with the result of the best measured cut. Begins with planner::kUndecided where that cut's
/// interval leaves room for a worthwhile gain as well as for a loss.
[[nodiscard]] std::string uncut_reason(const planner::OpSpec& op, const Race& race);

/// The contenders that the winner beat, with their predicted times and measured benefits.
[[nodiscard]] std::vector<planner::RunnerUp> losers(const Race& race, std::span<const planner::Plan> contenders,
                                                    const planner::Plan& winner, double winning_benefit);

} // namespace mc2::profiler
