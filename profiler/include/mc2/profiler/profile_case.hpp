#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// The lanes that one measurement times: one lane alone, or both at once (which gives both slow-downs).
enum class CaseTarget : std::uint8_t { Matmul = 1, Collective = 2, BothLanes = 3 };

/// One possible measurement: the whole cut axis in blocks of `block_rows`.
struct ProfileCase {
  CaseTarget target = CaseTarget::Matmul;
  std::int64_t block_rows = 0;

  /// "compute 256 rows", "both lanes 256 columns".
  [[nodiscard]] std::string text(planner::CutAxis axis) const;
  auto operator<=>(const ProfileCase&) const = default;
};

/// The measurements of one round of a profile, for a cut axis of `rows` rows or columns. The lengths are those of
/// sweep_block_rows() in the order of coarse_to_fine(), the most informative first. Each length times each lane alone;
/// lengths of rows / 17 to rows / 3, which typical plans of 4 to 16 blocks use, also time both lanes at once.
[[nodiscard]] std::vector<ProfileCase> grid_cases(std::int64_t rows, std::int64_t alignment);

} // namespace mc2::profiler

#pragma GCC visibility pop
