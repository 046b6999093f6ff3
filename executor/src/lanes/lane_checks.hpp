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
/// with 64-bit row numbers, and choices, where the operator has them.
[[nodiscard]] std::int64_t operator_bytes(const planner::OpSpec& op) noexcept;

/// Bytes that one rank's compute device keeps: packed copies of B, of which each block of columns has its own, which
/// the library rounds up; none for tables. Where rows choose experts, what they are gathered in, too.
[[nodiscard]] std::int64_t device_bytes(const StageList& list) noexcept;

} // namespace mc2::executor::lanes
