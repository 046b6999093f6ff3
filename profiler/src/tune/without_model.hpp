#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/planner.hpp"
#include "mc2/profiler/race.hpp"

namespace mc2::profiler {

/// What races where no model says which cuts are good: legal cuts of about 2, 4, 8 and 16 blocks with the bench's first
/// variant (or `only`, if that is set), about 4 with each of the others; uncut, where a local part or slices overlap
/// then. Where nothing overlaps, serial itself. None predicts anything. Errors: as planner::enumerate_cuts.
[[nodiscard]] Result<std::vector<planner::Plan>> plain_contenders(const Bench& bench,
                                                                  const planner::PlanOptions& options,
                                                                  const std::optional<planner::Variant>& only);

/// The plan that is kept then: the winner_of() the race with its validation, strategy "raced", or serial where nothing
/// won. It predicts nothing.
/// @param why  there is no model, for people
[[nodiscard]] planner::Plan judge_without_model(const Race& race, std::span<const planner::Plan> contenders,
                                                const std::string& why);

} // namespace mc2::profiler
