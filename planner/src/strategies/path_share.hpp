#pragma once

#include <algorithm>

#include "mc2/planner/pipeline.hpp"

namespace mc2::planner::strategies {

/// A block's part in the length of a path: before the block at which the path changes lanes, there, and behind it.
/// docs/cost_model.md §4.
struct PathShare {
  double before, change, behind;
  /// A path changes lanes in one of a block's equal slices; the best of them is its first or its last.
  PathShare(double first_us, double second_us, const Contention& contention, int slice_count) noexcept
      : before(first_us + contention.kappa * second_us), change(first_us + second_us),
        behind(contention.gamma * first_us + second_us) {
    const double early = change + (slice_count - 1) * behind, late = (slice_count - 1) * before + change;
    change = (contention.is_overlap_useful ? std::max(early, late) : std::min(early, late)) / slice_count;
  }
};

} // namespace mc2::planner::strategies
