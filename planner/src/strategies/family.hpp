#pragma once

#include <algorithm>
#include <cstdint>

#include "mc2/planner/planner.hpp"

namespace mc2::planner::strategies {

/// One cut of the short/long family: `long_count` blocks of `long_rows` and one odd block, or none of length 0.
struct FamilyMember {
  std::int64_t long_rows = 0;
  std::int64_t long_count = 0;
  std::int64_t odd_rows = 0; ///< 0: all blocks are equal
  bool odd_first = false;

  [[nodiscard]] std::int64_t block_count() const noexcept { return long_count + (odd_rows > 0 ? 1 : 0); }
};

/// Most steps that long blocks are tried in. Longer axes are searched in coarser steps, which bounds time and memory
/// for any m while a step stays below 0.1 % of the axis.
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

/// Calls visit(FamilyMember) for every member but the uncut one, in a fixed order.
template <typename Visit>
void for_each_member(std::int64_t rows, const PlanOptions& options, Visit&& visit) {
  const std::int64_t step = family_step(rows, options);
  const std::int64_t first_long = ceil_div(std::max(options.min_block_rows, step), step) * step;
  for (std::int64_t long_rows = first_long; long_rows < rows; long_rows += step) {
    const std::int64_t most = std::min(rows / long_rows, options.max_block_count);
    for (std::int64_t count = 1; count <= most; ++count) {
      const std::int64_t odd = rows - count * long_rows;
      // Of two blocks either may be the long one: the longer is.
      const bool is_met_later = count == 1 && odd > long_rows && odd % step == 0;
      if (odd == 0) {
        visit(FamilyMember{long_rows, count, 0, false});
      } else if (!is_met_later && odd >= options.min_block_rows && odd != long_rows &&
                 count + 1 <= options.max_block_count) {
        visit(FamilyMember{long_rows, count, odd, true}); // an odd block as long as the others is one more of them
        visit(FamilyMember{long_rows, count, odd, false});
      }
    }
  }
}

[[nodiscard]] inline Cut to_cut(const FamilyMember& member) {
  Cut cut{std::vector<std::int64_t>(static_cast<std::size_t>(member.long_count), member.long_rows)};
  if (member.odd_rows > 0)
    cut.block_rows.insert(member.odd_first ? cut.block_rows.begin() : cut.block_rows.end(), member.odd_rows);
  return cut;
}

} // namespace mc2::planner::strategies
