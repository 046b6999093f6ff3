#pragma once

#include <chrono>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/speed_spread.hpp"
#include "mc2/profiler/bench.hpp"
#include "mc2/profiler/tune_hooks.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// Each lane of each variant runs until both limits are reached, and then until its median is known or the most time is
/// over.
struct AnchorSettings {
  std::chrono::milliseconds least_time{50}, most_time{400};
  int least_runs = 5;
  double known_interval = 0.02; ///< half-width of the median's 90 % interval, relative
};

/// Times the lanes of the bench's operator for every variant that both the model and the bench know: uncut, or in the
/// longest equal blocks that the model's curves were measured for. The time of longer blocks would tell how far off the
/// curve is there, which says nothing of shorter ones. The lanes take turns. Returns the median of each lane, for
/// planner::at_speed().
/// Errors: NotFound where model and bench share no variant; as Bench::prepare; Cancelled. Throws as the bench.
[[nodiscard]] Result<std::vector<planner::TimedLanes>> time_lanes(Bench& bench, const planner::CostModel& model,
                                                                  const AnchorSettings& settings = {},
                                                                  const TuneHooks& hooks = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
