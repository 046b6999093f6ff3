#pragma once

#include <cstddef>
#include <cstdint>

#include "bf16.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::lanes {

/// Where normalised rows go, and the operands of the norm.
struct NormTarget {
  std::byte* rows = nullptr; ///< dense; null: rows are not normalised
  const std::byte* weight = nullptr;
  float epsilon = 0;
};

/// A row is normalised in two steps, so that its squares can be summed while its tiles are made. First the sums of
/// squares of its tiles are added up, from first to last; then every element is multiplied by norm_factor() and its
/// weight.
inline constexpr std::int64_t kNormTile = 1024; ///< elements of every tile except the last
/// The sum of squares in f32, in an order that is the same on every CPU.
[[nodiscard]] float sum_of_squares(const float* tile, std::int64_t count) noexcept;
[[nodiscard]] float sum_of_squares(const Bf16* tile, std::int64_t count) noexcept;
[[nodiscard]] float norm_factor(float square_sum, std::int64_t columns, float epsilon) noexcept;
void scale_row(const float* row, std::int64_t columns, const float* weight, float factor, float* normed) noexcept;
void scale_row(const Bf16* row, std::int64_t columns, const Bf16* weight, float factor, Bf16* normed) noexcept;

/// normed[i] = row[i] / sqrt(mean of row[j]^2 + epsilon) weight[i] for every row, accumulated in f32 and rounded once
/// to `dtype`, F32 or Bf16. Every CPU gives the same bits. `rows` must be dense and not overlap the target.
void rms_norm(planner::DType dtype, const std::byte* rows, std::int64_t row_count, std::int64_t columns,
              const NormTarget& target) noexcept;

} // namespace mc2::executor::lanes
