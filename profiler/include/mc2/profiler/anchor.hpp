#pragma once

#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/speed_spread.hpp"
#include "mc2/profiler/bench.hpp"
#include "mc2/profiler/tune_hooks.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// Times the lanes of the bench's operator for every variant that both the model and the bench know: uncut, or in the
/// longest equal blocks that the model's curves were measured for. The time of longer blocks would tell how far off the
/// curve is there, which says nothing of shorter ones. The lanes take turns, each until its median is known or 0.4 s
/// are over. Returns the median of each lane, for planner::at_speed(). Errors: NotFound where model and bench share no
/// variant; as Bench::prepare; Cancelled. Throws as the bench.
[[nodiscard]] Result<std::vector<planner::TimedLanes>> time_lanes(Bench& bench, const planner::CostModel& model,
                                                                  const TuneHooks& hooks = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
