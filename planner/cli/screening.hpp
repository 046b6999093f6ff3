#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/store/store.hpp"
#include "workbench.hpp"

namespace mc2::cli {

/// A few runs of one variant: medians in us, of its collectives alone with each of several cuts, then of the fused
/// operator with one.
using VariantTrial = std::vector<double>;

/// Which variants are the fastest of all in some trial. `trials` have the same length, at least 1.
[[nodiscard]] std::vector<bool> winners(std::span<const VariantTrial> trials);

/// Goes on with those variants that are the fastest of all in a few runs of some cut, so that a backend with many costs
/// little more to profile than one with few. Only where the variants multiply alike (Backend::variants_share_matmul),
/// because then their collectives tell them apart; variants that have samples in the store stay. Returns one line for
/// people about what was left out; empty if nothing was.
/// Errors: as Workbench::prepare; Cancelled.
[[nodiscard]] Result<std::string> screen_variants(Workbench& bench, std::int64_t alignment, const store::Store& store);

} // namespace mc2::cli
