#pragma once

#include <cstddef>
#include <span>

#include "mc2/executor/buffer.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// verify_result() for embedding_all_to_all: compares every element of every rank's C with its bag in double precision.
///   allowed(i, j) = (L + 1) u32 sum_l |x_lj| / d + 1.01 u |c_ij|
/// x_l are the L rows that the bag names, d = L for means and 1 for sums, u32 = 2^-24, u the unit roundoff of the type
/// (second term only for types shorter than f32). Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd
/// ed., (4.4), and one rounding for the division. Errors: Mismatch naming rank, row and column.
[[nodiscard]] Result<Verification> verify_pooling(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

/// verify_exchange() for embedding_all_to_all: every row of C equals the pooled features of its senders to the bit.
[[nodiscard]] Result<Verification> verify_pooled_moves(const planner::OpSpec& op,
                                                       std::span<const std::span<const std::byte>> pooled,
                                                       std::span<const RankBuffers> buffers);

} // namespace mc2::executor
