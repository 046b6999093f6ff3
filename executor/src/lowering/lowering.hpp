#pragma once

#include "mc2/executor/stage.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"

namespace mc2::executor {

/// Turns a cut that has been checked (positive blocks that sum to the cut axis) into stages, for one operator kind.
using LowerFunction = StageList (*)(const planner::OpSpec& op, const planner::Cut& cut);

/// Each block is a contiguous run of rows of the product; the matmul comes first.
[[nodiscard]] StageList lower_matmul_all_reduce(const planner::OpSpec& op, const planner::Cut& cut);

} // namespace mc2::executor
