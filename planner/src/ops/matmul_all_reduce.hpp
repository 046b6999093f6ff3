#pragma once

#include "mc2/planner/op_spec.hpp"

namespace mc2::planner::ops {

/// Every rank multiplies A [m, k] by B [k, n]; the products are summed over the ranks and the sum is on all of them.
/// Blocks are rows of the product, or its columns where it has at most 64 rows (GEMV, decode), and the collective's
/// message is the product itself.
[[nodiscard]] OpTraits matmul_all_reduce() noexcept;

} // namespace mc2::planner::ops
