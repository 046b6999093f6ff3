#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace mc2::testing {

/// The transpose of a row-major matrix whose elements have two bytes.
inline std::vector<std::byte> transposed(std::span<const std::byte> matrix, std::int64_t rows, std::int64_t columns) {
  std::vector<std::byte> result(matrix.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      std::memcpy(&result[static_cast<std::size_t>(2 * (j * rows + i))],
                  &matrix[static_cast<std::size_t>(2 * (i * columns + j))], 2);
  return result;
}

} // namespace mc2::testing
