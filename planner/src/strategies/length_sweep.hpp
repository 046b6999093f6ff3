#pragma once

#include <vector>

#include "mc2/planner/block_lengths.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// compare_lengths()' choices but for the best plan, for a question that was checked.
[[nodiscard]] std::vector<LengthChoice> sweep_lengths(const Problem& problem);

} // namespace mc2::planner::strategies
