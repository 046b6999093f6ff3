#pragma once

#include <cstddef>
#include <cstdint>

#include "mc2/planner/units.hpp"

namespace mc2::executor::lanes {

/// Where rows go once they are normalised, and what with.
struct NormTarget {
  std::byte* rows = nullptr; ///< dense; null for nothing to normalise
  const std::byte* weight = nullptr;
  float epsilon = 0;
};

/// normed[i] = row[i] / sqrt(mean of row[j]^2 + epsilon) weight[i], for every row: accumulated in f32, rounded once to
/// `dtype`, F32 or Bf16; the same bits on every CPU. `rows` is dense and overlaps nothing of the target.
void rms_norm(planner::DType dtype, const std::byte* rows, std::int64_t row_count, std::int64_t columns,
              const NormTarget& target) noexcept;

} // namespace mc2::executor::lanes
