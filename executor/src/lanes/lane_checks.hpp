#pragma once

#include <cstdint>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "stage.hpp"

namespace mc2::executor::lanes {

/// Whether this CPU runs the operator's type. Errors: InvalidSpec, Unsupported.
[[nodiscard]] Result<void> check_operator(const planner::OpSpec& op);

/// Errors: Unsupported, naming the bytes, when `needed_bytes` exceed what the machine has available.
[[nodiscard]] Result<void> check_memory(std::int64_t needed_bytes);

/// Bytes of A, B, the packed copy of B, what passes between the lanes, and C, of all ranks; of tables and their bags,
/// with 64-bit row numbers, where the operator has them.
[[nodiscard]] std::int64_t operator_bytes(const planner::OpSpec& op) noexcept;

/// Bytes of one rank's packed copies of B: each block of columns has its own, which the library rounds up. None for
/// tables.
[[nodiscard]] std::int64_t packed_b_bytes(const StageList& list) noexcept;

} // namespace mc2::executor::lanes
