#pragma once

#include "mc2/planner/op_spec.hpp"

namespace mc2::planner::ops {

/// A [m, k] is sharded by rows: rank r holds rows [r m/R, (r+1) m/R). Every rank gathers A and multiplies it by its own
/// B [k, n]. Blocks are rows of one shard: a block of rows [r0, r0 + b) gathers those rows of every shard and then
/// multiplies those of the R - 1 other ranks; the own shard is multiplied first, while they arrive.
[[nodiscard]] OpTraits all_gather_matmul() noexcept;

} // namespace mc2::planner::ops
