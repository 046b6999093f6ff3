#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/profiler/race.hpp"

namespace mc2::profiler {

/// What is kept after a race: the winner_of() it, predicted by the model where that knows its variant, with its
/// validation and what it beat; the serial plan where nothing won.
/// @param contenders  in the order of race.contenders
/// Errors: as planner::make_plan.
[[nodiscard]] Result<planner::Plan> judge(const planner::OpSpec& op, const planner::CostModel& model, const Race& race,
                                          std::span<const planner::Plan> contenders,
                                          const planner::PlanOptions& options);

/// Why no cut is kept, with the best measured one as the witness; planner::kUndecided where its interval has room for a
/// gain worth having and for a loss.
[[nodiscard]] std::string uncut_reason(const planner::OpSpec& op, const Race& race);

/// What the winner left behind, as predicted and as measured.
[[nodiscard]] std::vector<planner::RunnerUp> losers(const Race& race, std::span<const planner::Plan> contenders,
                                                    const planner::Plan& winner, double winning_benefit);

} // namespace mc2::profiler
