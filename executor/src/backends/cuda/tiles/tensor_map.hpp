#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace mc2::executor::cuda {

/// Row-major matrices of 2-byte elements, one behind the other, that are copied in boxes of kBoxColumns columns and
/// `box_rows` rows.
struct BoxedMatrix {
  const std::byte* address;
  std::int64_t rows;
  std::int64_t columns; ///< a multiple of kRowMultiple
  std::int64_t box_rows;
};

inline constexpr std::int64_t kRowMultiple = 8; ///< bulk copies need rows of whole 16 bytes: 8 elements

/// The description by which bulk copies find boxes, swizzled by 128 bytes. Throws SystemError.
/// @param matrix_count  number of matrices; the matrix is then a third coordinate. Nothing: one matrix, two coordinates
[[nodiscard]] CUtensorMap tensor_map(const BoxedMatrix& matrix, bool is_half,
                                     std::optional<std::int64_t> matrix_count = std::nullopt);

} // namespace mc2::executor::cuda
