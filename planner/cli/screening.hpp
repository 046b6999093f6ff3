#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "mc2/store/store.hpp"
#include "measure.hpp"

namespace mc2::cli {

/// What a few runs of one variant took in each of some trials: medians in us.
using VariantTimes = std::vector<double>;

/// Median wall time in us of each of the bench's variants, which take turns until `deadline`: two to seven runs each
/// after one to warm up. Errors: as Workbench::prepare; Cancelled.
[[nodiscard]] Result<std::vector<double>> time_in_turn(Workbench& bench, const planner::Cut& cut,
                                                       executor::RunMode mode,
                                                       std::chrono::steady_clock::time_point deadline);

/// Which variants it takes to have one in every trial that is as good as the fastest; of those that tie with one
/// chosen for an earlier trial, none more. `times` have the same length, at least 1.
[[nodiscard]] std::vector<bool> winners(std::span<const VariantTimes> times);

/// Goes on with the winners() of a few runs of the fused operator with one cut and of the collectives alone with
/// several, so that a backend with many variants costs little more to profile than one with few. Only where the
/// variants multiply alike (Backend::variants_share_matmul), because then their collectives tell them apart; variants
/// that have samples in the store stay. Takes a quarter of the budget for profiling at most, or two runs of each trial.
/// Returns one line for people about what was left out; empty if nothing was.
/// Errors: as Workbench::prepare; Cancelled.
[[nodiscard]] Result<std::string> screen_variants(Workbench& bench, const ProfileSettings& settings,
                                                  const store::Store& store);

} // namespace mc2::cli
