#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace mc2::executor::cuda {

/// Row-major matrices of 2-byte elements, one behind the other, in boxes of kBoxColumns columns and `box_rows` rows.
struct BoxedMatrix {
  const std::byte* address;
  std::int64_t rows;
  std::int64_t columns; ///< a multiple of kRowMultiple
  std::int64_t box_rows;
};

inline constexpr std::int64_t kRowMultiple = 8; ///< elements in 16 bytes, as bulk copies need

/// How bulk copies find boxes, swizzled by 128 bytes. @param matrix_count  which of them is a third coordinate;
/// nothing: there is one, and there are two coordinates. Throws SystemError.
[[nodiscard]] CUtensorMap tensor_map(const BoxedMatrix& matrix, bool is_half,
                                     std::optional<std::int64_t> matrix_count = std::nullopt);

} // namespace mc2::executor::cuda
