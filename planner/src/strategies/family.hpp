#pragma once

#include <algorithm>
#include <cstdint>

#include "mc2/planner/plan_ranges.hpp"

namespace mc2::planner::strategies {

/// Largest number of steps in which an axis is divided to try lengths of long blocks. Longer axes are searched in
/// coarser steps, which bounds time and memory for any m while a step stays below 0.1 % of the axis.
inline constexpr std::int64_t kMaxUnitCount = 1024;

/// The smallest multiple of the alignment that divides an axis into at most `max_unit_count` steps.
[[nodiscard]] inline std::int64_t coarsened_step(std::int64_t rows, std::int64_t alignment,
                                                 std::int64_t max_unit_count) noexcept {
  return alignment * ceil_div(ceil_div(rows, alignment), max_unit_count);
}

/// Rows between neighbouring long-block lengths: the alignment, or a multiple of it for very long axes.
[[nodiscard]] inline std::int64_t family_step(std::int64_t rows, const PlanOptions& options) noexcept {
  return coarsened_step(rows, options.alignment, kMaxUnitCount);
}

/// Calls visit(BlockSplit) for every member but the uncut one, in a fixed order.
/// @param is_hopeless  true for a block length whose members are left out
template <typename Visit, typename IsHopeless>
void for_each_member(std::int64_t rows, const PlanOptions& options, const Visit& visit, const IsHopeless& is_hopeless) {
  const std::int64_t step = family_step(rows, options);
  const std::int64_t first_long = align_up(std::max(options.min_block_rows, step), step);
  for (std::int64_t long_rows = first_long; long_rows < rows; long_rows += step) {
    if (is_hopeless(long_rows)) continue;
    const std::int64_t most = std::min(rows / long_rows, options.max_block_count);
    for (std::int64_t count = 1; count <= most; ++count) {
      const std::int64_t odd = rows - count * long_rows;
      if (odd == 0) {
        visit(BlockSplit{long_rows, count, 0, false});
        continue;
      }
      // Either of two blocks could be the long one. The cut is visited once, with the longer block as the long one.
      const bool is_met_later = count == 1 && odd > long_rows && odd % step == 0;
      if (!is_met_later && odd >= options.min_block_rows && odd != long_rows && count + 1 <= options.max_block_count &&
          !is_hopeless(odd)) {
        visit(BlockSplit{long_rows, count, odd, true}); // odd == long_rows would be count + 1 long blocks
        visit(BlockSplit{long_rows, count, odd, false});
      }
    }
  }
}

template <typename Visit>
void for_each_member(std::int64_t rows, const PlanOptions& options, const Visit& visit) {
  for_each_member(rows, options, visit, [](std::int64_t) { return false; });
}

} // namespace mc2::planner::strategies
