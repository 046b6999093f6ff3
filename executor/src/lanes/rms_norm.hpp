#pragma once

#include <cstddef>
#include <cstdint>

#include "bf16.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::lanes {

/// Where rows go once they are normalised, and what with.
struct NormTarget {
  std::byte* rows = nullptr; ///< dense; null for nothing to normalise
  const std::byte* weight = nullptr;
  float epsilon = 0;
};

/// A row is normalised in two steps, which let its squares be added up while tiles of it are made: the sums of squares
/// of its tiles, first to last, then every element times norm_factor() and its weight.
inline constexpr std::int64_t kNormTile = 1024; ///< elements of a tile but the last
/// In f32 and in one order, whatever the CPU.
[[nodiscard]] float sum_of_squares(const float* tile, std::int64_t count) noexcept;
[[nodiscard]] float sum_of_squares(const Bf16* tile, std::int64_t count) noexcept;
[[nodiscard]] float norm_factor(float square_sum, std::int64_t columns, float epsilon) noexcept;
void scale_row(const float* row, std::int64_t columns, const float* weight, float factor, float* normed) noexcept;
void scale_row(const Bf16* row, std::int64_t columns, const Bf16* weight, float factor, Bf16* normed) noexcept;

/// normed[i] = row[i] / sqrt(mean of row[j]^2 + epsilon) weight[i], for every row: accumulated in f32, rounded once to
/// `dtype`, F32 or Bf16; the same bits on every CPU. `rows` is dense and overlaps nothing of the target.
void rms_norm(planner::DType dtype, const std::byte* rows, std::int64_t row_count, std::int64_t columns,
              const NormTarget& target) noexcept;

} // namespace mc2::executor::lanes
