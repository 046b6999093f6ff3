#pragma once

#include "mc2/planner/op_spec.hpp"

namespace mc2::planner::ops {

/// Every rank sends rows [q m/R, (q+1) m/R) of its A [m, k] to rank q; each puts what it gets one below the other in
/// the order of the senders, [m, k], and multiplies it by its own B [k, n]: a mixture of experts' dispatch with equal
/// splits. Blocks are rows of one shard: a block of rows [r0, r0 + b) brings those rows of every sender's shard and
/// then multiplies those of the R - 1 other ranks; what a rank sends itself is multiplied first, while they arrive.
[[nodiscard]] OpTraits all_to_all_matmul() noexcept;

} // namespace mc2::planner::ops
