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

/// Each part of each variant runs until both limits are reached.
struct AnchorSettings {
  std::chrono::milliseconds least_time{50};
  int least_runs = 5;
};

/// Times the uncut parts (compute, communication) of the bench's operator for every variant that both the model and the
/// bench know. The parts take turns. Returns the median of each part, for planner::at_speed().
/// Errors: NotFound where model and bench share no variant; as Bench::prepare; Cancelled. Throws as the bench.
[[nodiscard]] Result<std::vector<planner::UncutTimes>> time_uncut_parts(Bench& bench, const planner::CostModel& model,
                                                                        const AnchorSettings& settings = {},
                                                                        const TuneHooks& hooks = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
