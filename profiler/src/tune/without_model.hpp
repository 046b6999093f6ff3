#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/planner.hpp"
#include "mc2/profiler/race.hpp"

namespace mc2::profiler {

/// The contenders where no model says which cuts are good. With the bench's first variant (or `only`, if set): legal
/// cuts of about 2, 4, 8 and 16 blocks; with each other variant: about 4 blocks. With every variant also uncut, where a
/// local part or slices overlap then. Where nothing overlaps: serial itself. The plans carry no predictions.
/// Errors: as planner::enumerate_cuts.
[[nodiscard]] Result<std::vector<planner::Plan>> plain_contenders(const Bench& bench,
                                                                  const planner::PlanOptions& options,
                                                                  const std::optional<planner::Variant>& only);

/// The plan to keep after such a race, with strategy "raced" and without a prediction: winner_of() the race with its
/// validation, or serial where no cut won.
/// @param why  the reason why there is no model, for people
[[nodiscard]] planner::Plan judge_without_model(const Race& race, std::span<const planner::Plan> contenders,
                                                const planner::PlanOptions& options, const std::string& why);

} // namespace mc2::profiler
