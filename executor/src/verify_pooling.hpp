#pragma once

#include <cstddef>
#include <span>

#include "mc2/executor/buffer.hpp"
#include "mc2/executor/verify.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// verify_result() of embedding_all_to_all: every element of every rank's C against its bag in double precision.
///   allowed(i, j) = (L + 1) u32 sum_l |x_lj| / d + 1.01 u |c_ij|
/// with x_l the L rows that the bag names, d = L for means and 1 for sums, u32 = 2^-24, u the type's own unit roundoff
/// (the second term only for types shorter than f32): Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
/// (4.4), and the division. Errors: Mismatch naming rank, row and column.
[[nodiscard]] Result<Verification> verify_pooling(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

/// verify_exchange() of embedding_all_to_all: every row of C equal to the bit to the pooled features of its senders.
[[nodiscard]] Result<Verification> verify_pooled_moves(const planner::OpSpec& op,
                                                       std::span<const std::span<const std::byte>> pooled,
                                                       std::span<const RankBuffers> buffers);

} // namespace mc2::executor
