#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::testing {

/// Element `index` of a packed matrix as a double. Written apart from the library's own conversions, on purpose.
inline double element(planner::DType dtype, std::span<const std::byte> bytes, std::int64_t index) {
  if (dtype == planner::DType::F32) {
    float value = 0;
    std::memcpy(&value, bytes.data() + index * 4, sizeof value);
    return value;
  }
  std::uint16_t upper_half = 0;
  std::memcpy(&upper_half, bytes.data() + index * 2, sizeof upper_half);
  return std::bit_cast<float>(static_cast<std::uint32_t>(upper_half) << 16U);
}

inline std::vector<double> elements(planner::DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / static_cast<std::size_t>(planner::size_bytes(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(dtype, bytes, static_cast<std::int64_t>(i));
  return values;
}

/// The definition: result[i, j] = sum over ranks r and l of A_r[i, l] B_r[l, j], row-major, in double.
inline std::vector<double> naive_matmul_all_reduce(const planner::OpSpec& op,
                                                   std::span<const executor::RankBuffers> buffers) {
  const auto m = static_cast<std::size_t>(op.m);
  const auto n = static_cast<std::size_t>(op.n);
  const auto k = static_cast<std::size_t>(op.k);
  std::vector<double> result(m * n);
  for (const auto& rank : buffers) {
    const auto a = elements(op.dtype, rank.a);
    const auto b = elements(op.dtype, rank.b);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t l = 0; l < k; ++l) {
        for (std::size_t j = 0; j < n; ++j) result[i * n + j] += a[i * k + l] * b[l * n + j];
      }
    }
  }
  return result;
}

/// How far one element may be from the oracle for numbers in [-1, 1): every one of the R k additions loses at most
/// half a unit of a sum that is at most R k, a wide bound; short types round R partial products and the sum.
inline double allowed_error(const planner::OpSpec& op) {
  const double terms = static_cast<double>(op.k) * op.world_size;
  const double roundoff = op.dtype == planner::DType::F32 ? 0x1p-24 : 0x1p-8;
  return op.dtype == planner::DType::F32 ? roundoff * terms * 4 : roundoff * terms;
}

} // namespace mc2::testing
