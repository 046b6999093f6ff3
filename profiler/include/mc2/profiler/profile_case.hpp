#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// What one measurement times: a lane alone, or both at once (which gives both slow-downs).
enum class CaseTarget : std::uint8_t { Matmul = 1, Collective = 2, BothLanes = 3 };

/// One possible measurement: the whole cut axis in blocks of `block_rows`.
struct ProfileCase {
  CaseTarget target = CaseTarget::Matmul;
  std::int64_t block_rows = 0;

  /// "compute 256 rows", "both lanes 256 columns".
  [[nodiscard]] std::string text(planner::CutAxis axis) const;
  auto operator<=>(const ProfileCase&) const = default;
};

/// What one round of a profile times of an operator with so many rows or columns to cut, the most telling lengths
/// first: each lane alone, and both at once where typical plans of 4 to 16 blocks lie (sweep_block_rows(),
/// coarse_to_fine()).
[[nodiscard]] std::vector<ProfileCase> grid_cases(std::int64_t rows, std::int64_t alignment);

} // namespace mc2::profiler

#pragma GCC visibility pop
