#pragma once

#include <vector>

#include "mc2/planner/block_lengths.hpp"
#include "strategies/prediction.hpp"

namespace mc2::planner::strategies {

/// The choices of compare_lengths() before make_plan()'s plan is put among them. The question has been checked.
[[nodiscard]] std::vector<LengthChoice> sweep_lengths(const Problem& problem);

} // namespace mc2::planner::strategies
