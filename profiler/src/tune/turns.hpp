#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "mc2/profiler/bench.hpp"
#include "mc2/profiler/tune_hooks.hpp"

namespace mc2::profiler {

/// The blocks that nobody planned, ready to run on their overlapping schedule. Errors: as Bench::prepare.
[[nodiscard]] Result<std::size_t> prepare_blocks(Bench& bench, const planner::Cut& cut,
                                                 const planner::Variant& variant);

/// Median time in us of each of some prepared plans, which take turns until `deadline`: two to seven runs each after
/// one to warm up. Errors: Cancelled.
[[nodiscard]] Result<std::vector<double>> time_in_turn(Bench& bench, std::span<const std::size_t> prepared,
                                                       RunPart part, std::chrono::steady_clock::time_point deadline,
                                                       const TuneHooks& hooks);

/// The same of each of the bench's variants. Errors: as Bench::prepare; Cancelled.
[[nodiscard]] Result<std::vector<double>> time_in_turn(Bench& bench, const planner::Cut& cut, RunPart part,
                                                       std::chrono::steady_clock::time_point deadline,
                                                       const TuneHooks& hooks);

[[nodiscard]] inline bool is_cancelled(const TuneHooks& hooks) { return hooks.is_cancelled && hooks.is_cancelled(); }

} // namespace mc2::profiler
