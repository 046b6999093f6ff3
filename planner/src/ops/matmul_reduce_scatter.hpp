#pragma once

#include "mc2/planner/op_spec.hpp"

namespace mc2::planner::ops {

/// Every rank multiplies A [m, k] by B [k, n]; rank r keeps rows [r m/R, (r+1) m/R) of the sum of the products.
/// Blocks are rows of one shard: a block of rows [r0, r0 + b) computes those rows of every shard, R b rows of the
/// product, and scatters them, so that each rank's result keeps its normal layout.
[[nodiscard]] OpTraits matmul_reduce_scatter() noexcept;

} // namespace mc2::planner::ops
