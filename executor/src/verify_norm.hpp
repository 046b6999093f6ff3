#pragma once

#include <span>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// Compares every normalised row with the norm of the same row of C in double precision, as verify.hpp states. Returns
/// the largest |result - expected| / allowed; 0 for an operator without a norm. Errors: Mismatch for "normed" naming
/// rank, row and column.
[[nodiscard]] Result<double> verify_norm(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

} // namespace mc2::executor
