#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "mc2/profiler/bench.hpp"
#include "mc2/profiler/tune_hooks.hpp"

namespace mc2::profiler {

/// Prepares a cut that no planner predicted, on its overlapping schedule. Returns the number that Bench::prepare gives.
/// Errors: as Bench::prepare.
[[nodiscard]] Result<std::size_t> prepare_blocks(Bench& bench, const planner::Cut& cut,
                                                 const planner::Variant& variant);

/// Median time in us of each prepared plan. The plans take turns until `deadline`: one run each to warm up, then two to
/// seven timed runs. Errors: Cancelled.
[[nodiscard]] Result<std::vector<double>> time_in_turn(Bench& bench, std::span<const std::size_t> prepared,
                                                       RunPart part, std::chrono::steady_clock::time_point deadline,
                                                       const TuneHooks& hooks);

/// Median time in us of one cut with each of the bench's variants, timed in turns as above.
/// Errors: as Bench::prepare; Cancelled.
[[nodiscard]] Result<std::vector<double>> time_in_turn(Bench& bench, const planner::Cut& cut, RunPart part,
                                                       std::chrono::steady_clock::time_point deadline,
                                                       const TuneHooks& hooks);

[[nodiscard]] inline bool is_cancelled(const TuneHooks& hooks) { return hooks.is_cancelled && hooks.is_cancelled(); }

} // namespace mc2::profiler
