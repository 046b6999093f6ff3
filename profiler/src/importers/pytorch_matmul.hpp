#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "mc2/planner/op_spec.hpp"

namespace mc2::profiler {

/// Index of A among the operands of a PyTorch operator; nothing for an operator that does not multiply two matrices.
[[nodiscard]] std::optional<std::size_t> find_first_operand(std::string_view operator_name);

/// Whether the operator multiplies matrices of this type: _int_mm those of int8 only, _scaled_mm of fp8, others of the
/// rest.
[[nodiscard]] bool multiplies(std::string_view operator_name, planner::DType dtype);

/// Whether a kernel's name is that of a matmul of cuBLAS or CUTLASS, whichever operator launched it.
[[nodiscard]] bool is_matmul_kernel(std::string_view kernel_name);

struct OperandsFault {
  std::string_view why;
  bool is_bad = false; ///< true: the line is bad; false: the line is skipped
};
/// Why A and B of these dimensions are no matmul that can be taken; nothing when A is [m, k] and B [k, n], all above 0.
[[nodiscard]] std::optional<OperandsFault> find_operands_fault(std::span<const std::int64_t> a,
                                                               std::span<const std::int64_t> b);

} // namespace mc2::profiler
