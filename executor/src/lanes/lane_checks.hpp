#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "stage.hpp"

namespace mc2::executor::lanes {

/// Checks that this CPU can run the operator's type. Errors: InvalidSpec (op), Unsupported.
[[nodiscard]] Result<void> check_operator(const planner::OpSpec& op);

/// Checks the operands of the ranks that this process holds; check_operator() must have passed. Does not check that
/// ranks agree. Errors: as check_buffers, check_bags and check_choices; Unsupported, naming the rank, for B as [n, k]
/// and for counts in device memory.
/// @param backend  its name, for messages
[[nodiscard]] Result<void> check_operands(const planner::OpSpec& op, std::span<const int> ranks,
                                          std::span<const RankBuffers> buffers, std::string_view backend);

/// Errors: Unsupported, naming the bytes, if the machine has less than `needed_bytes` of memory available.
[[nodiscard]] Result<void> check_memory(std::int64_t needed_bytes);

/// The bytes of all ranks' operands, outputs, intermediates and packed copies of B. Includes tables, bags and choices
/// where the operator has them, with 64-bit numbers.
[[nodiscard]] std::int64_t operator_bytes(const planner::OpSpec& op) noexcept;

/// The bytes that one rank's compute device allocates: packed copies of B and, where rows choose experts, the memory in
/// which rows are gathered. Each block of columns has a packed copy, whose size oneDNN rounds up. 0 for tables.
[[nodiscard]] std::int64_t device_bytes(const StageList& list) noexcept;

} // namespace mc2::executor::lanes
