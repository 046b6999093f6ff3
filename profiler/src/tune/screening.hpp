#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/profiler/tune.hpp"

namespace mc2::profiler {

/// Times of one variant, in us: for each trial, the median of a few runs.
using VariantTimes = std::vector<double>;

/// Marks enough variants that every trial has a marked one as fast as the fastest within 3 %. A trial in which an
/// already marked variant is that fast marks no other. All `times` have the same length, at least 1.
[[nodiscard]] std::vector<bool> fastest_variants(std::span<const VariantTimes> times);

/// Restricts the bench to fastest_variants(), so that a backend with many variants costs little more to profile than a
/// backend with few. The trials are a few runs of the fused operator with one cut and of the collective alone with
/// several cuts. Does nothing unless the variants run the same matmul (Bench::variants_share_matmul), because only then
/// the collectives tell them apart. Variants of `earlier` samples stay. Takes at most a quarter of the budget for
/// profiling, but at least two runs of each trial.
/// Returns one line for people that names the variants left out; empty if there are none.
/// @param settings  with its `plan`
/// Errors: as Bench::prepare; Cancelled.
[[nodiscard]] Result<std::string> screen_variants(Bench& bench, const ProfileSettings& settings,
                                                  std::span<const planner::Sample> earlier, const TuneHooks& hooks);

} // namespace mc2::profiler
