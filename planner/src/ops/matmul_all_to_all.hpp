#pragma once

#include "mc2/planner/op_spec.hpp"

namespace mc2::planner::ops {

/// Every rank multiplies A [m, k] by B [k, n] and sends rows [q m/R, (q+1) m/R) of the product to rank q, which puts
/// what it gets one below the other in the order of the senders: a mixture of experts' combine with equal splits.
/// Blocks are rows of one shard: a block of rows [r0, r0 + b) computes those rows of every shard, R b rows of the
/// product, and exchanges them.
[[nodiscard]] OpTraits matmul_all_to_all() noexcept;

} // namespace mc2::planner::ops
