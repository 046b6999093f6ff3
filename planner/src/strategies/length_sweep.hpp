#pragma once

#include <vector>

#include "mc2/planner/block_lengths.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// As compare_lengths(), for a question that was checked.
[[nodiscard]] std::vector<LengthChoice> sweep_lengths(const Problem& problem);

} // namespace mc2::planner::strategies
