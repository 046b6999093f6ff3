#pragma once

#include "mc2/executor/stage.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"

namespace mc2::executor {

/// Turns a cut that has been checked (positive blocks that sum to the cut axis) into stages, for one operator kind.
using LowerFunction = StageList (*)(const planner::OpSpec& op, const planner::Cut& cut);

/// Stages that follow each other on the cut axis, in the kind's own order of lanes.
[[nodiscard]] StageList lower_in_order(const planner::OpSpec& op, const planner::Cut& cut);

/// Each block is a contiguous run of rows of the product, or of its columns.
[[nodiscard]] StageList lower_matmul_all_reduce(const planner::OpSpec& op, const planner::Cut& cut);

/// A block of b rows multiplies b rows of every rank's shard of the product, and leaves each rank its own b rows of
/// the sum.
[[nodiscard]] StageList lower_matmul_reduce_scatter(const planner::OpSpec& op, const planner::Cut& cut);

/// A block of b rows brings b rows of every other rank's shard of A and multiplies them. The own shard is no stage:
/// it waits for nobody.
[[nodiscard]] StageList lower_all_gather_matmul(const planner::OpSpec& op, const planner::Cut& cut);

/// A block of b rows multiplies b rows of what goes to each rank, and brings each rank its b rows from every rank.
[[nodiscard]] StageList lower_matmul_all_to_all(const planner::OpSpec& op, const planner::Cut& cut);

/// A block of b rows brings b rows of A from every other rank and multiplies them. What a rank sends itself is no
/// stage: it waits for nobody.
[[nodiscard]] StageList lower_all_to_all_matmul(const planner::OpSpec& op, const planner::Cut& cut);

/// A block of b samples pools b samples of every rank's share, and brings each rank the features of its b samples.
[[nodiscard]] StageList lower_embedding_all_to_all(const planner::OpSpec& op, const planner::Cut& cut);

} // namespace mc2::executor
