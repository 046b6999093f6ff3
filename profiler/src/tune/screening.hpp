#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/profiler/tune.hpp"

namespace mc2::profiler {

/// What a few runs of one variant took in each of some trials: medians in us.
using VariantTimes = std::vector<double>;

/// Which variants it takes to have one in every trial that is as good as the fastest; of those that tie with one
/// chosen for an earlier trial, none more. `times` have the same length, at least 1.
[[nodiscard]] std::vector<bool> fastest_variants(std::span<const VariantTimes> times);

/// Goes on with the fastest_variants() of a few runs of the fused operator with one cut and of the collectives alone
/// with several, so that a backend with many variants costs little more to profile than one with few. Only where the
/// variants multiply alike (Bench::variants_share_matmul), because then their collectives tell them apart; variants
/// of `earlier` samples stay. Takes a quarter of the budget for profiling at most, or two runs of each trial.
/// Returns one line for people about what was left out; empty if nothing was.
/// Errors: as Bench::prepare; Cancelled.
[[nodiscard]] Result<std::string> screen_variants(Bench& bench, const ProfileSettings& settings,
                                                  std::span<const planner::Sample> earlier, const TuneHooks& hooks);

} // namespace mc2::profiler
