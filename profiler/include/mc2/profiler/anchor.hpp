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

/// Each part of each variant runs until both are reached.
struct AnchorSettings {
  std::chrono::milliseconds least_time{50};
  int least_runs = 5;
};

/// Medians of what the uncut parts of the bench's operator take now, of every variant that the model and the bench
/// know; the parts take turns. What planner::at_speed() is given.
/// Errors: NotFound where they share no variant; as Bench::prepare; Cancelled. Throws as the bench.
[[nodiscard]] Result<std::vector<planner::UncutTimes>> time_uncut_parts(Bench& bench, const planner::CostModel& model,
                                                                        const AnchorSettings& settings = {},
                                                                        const TuneHooks& hooks = {});

} // namespace mc2::profiler

#pragma GCC visibility pop
