#pragma once

#include "mc2/planner/pipeline.hpp"

namespace mc2::planner::strategies {

/// A block's part in the length of a path: before the block at which the path changes lanes, there, and behind it.
/// docs/cost_model.md §4.
struct PathShare {
  double before, change, behind;
  PathShare(double first_us, double second_us, const Contention& contention) noexcept
      : before(first_us + contention.kappa * second_us), change(first_us + second_us),
        behind(contention.gamma * first_us + second_us) {}
};

} // namespace mc2::planner::strategies
