#pragma once

#include <algorithm>

#include "mc2/planner/pipeline.hpp"

namespace mc2::planner::strategies {

/// What a block adds to the length of a path if it lies before the block in which the path changes lanes, is that
/// block, or lies behind it. docs/cost_model.md §4.
struct PathShare {
  double before, change, behind;
  /// The path changes lanes in one of the block's slices: the one that makes the path longest or, where overlap gains
  /// nothing, shortest.
  PathShare(double first_us, double second_us, const Contention& contention, const Slices& slices) noexcept
      : before(first_us + contention.kappa * second_us), behind(contention.gamma * first_us + second_us) {
    const double inside = first_us + second_us;
    const auto length = [&](const Slices::Change& at) {
      return at.before * before + at.inside * inside + at.behind * behind;
    };
    change = length(slices.changes().front());
    for (const Slices::Change& at : slices.changes().subspan(1))
      change = contention.is_overlap_useful ? std::max(change, length(at)) : std::min(change, length(at));
  }
};

} // namespace mc2::planner::strategies
