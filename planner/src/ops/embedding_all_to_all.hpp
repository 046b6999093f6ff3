#pragma once

#include "mc2/planner/op_spec.hpp"

namespace mc2::planner::ops {

/// Table-parallel to batch-parallel: every rank pools the bags of all m samples from its own tables into [m, n] and
/// sends rows [q m/R, (q+1) m/R) to rank q, which puts the columns of rank 0's tables first, then those of rank 1's: [m
/// / R, R n]. Blocks are samples of one rank's share: a block of samples [s0, s0 + b) pools those of every rank's
/// share, R b samples, and exchanges them.
[[nodiscard]] OpTraits embedding_all_to_all() noexcept;

} // namespace mc2::planner::ops
