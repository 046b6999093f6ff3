#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <cstdint>
#include <vector>

#include "simulated_gpu/numbers.hpp"

namespace mc2::simulated {

/// A row-major matrix.
struct MatrixF32 {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;

  MatrixF32(std::int64_t row_count, std::int64_t column_count)
      : rows(row_count), columns(column_count), values(static_cast<std::size_t>(row_count * column_count)) {}
  [[nodiscard]] float* row(std::int64_t index) { return values.data() + index * columns; }
  [[nodiscard]] const float* row(std::int64_t index) const { return values.data() + index * columns; }
};

/// Converts a matrix of any type. `pitch` is the number of elements from the start of one row to the next.
template <typename T>
MatrixF32 matrix_of(const T* from, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
  MatrixF32 matrix(rows, columns);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      matrix.row(row)[column] = to_f32(from[row * pitch + column]);
  return matrix;
}

/// scale * A B, or scale * A B^T.
inline MatrixF32 product(const MatrixF32& a, const MatrixF32& b, bool b_is_transposed, float scale = 1) {
  MatrixF32 c(a.rows, b_is_transposed ? b.rows : b.columns);
  (void)dnnl_sgemm('N', b_is_transposed ? 'T' : 'N', c.rows, c.columns, a.columns, scale, a.values.data(), a.columns,
                   b.values.data(), b.columns, 0, c.values.data(), c.columns);
  return c;
}

} // namespace mc2::simulated
