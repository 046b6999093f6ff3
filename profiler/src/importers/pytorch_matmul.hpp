#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace mc2::profiler {

/// Place of A among the operands of an operator of PyTorch; nothing for what multiplies no two matrices.
[[nodiscard]] std::optional<std::size_t> find_first_operand(std::string_view operator_name);

struct OperandsFault {
  std::string_view why;
  bool is_bad = false; ///< rather than left out
};
/// Why A and B of such dimensions are no matmul that can be taken; nothing when m, k and k, n are above 0.
[[nodiscard]] std::optional<OperandsFault> find_operands_fault(std::span<const std::int64_t> a,
                                                               std::span<const std::int64_t> b);

} // namespace mc2::profiler
