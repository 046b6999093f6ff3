#pragma once

#include <cstdint>
#include <vector>

#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// The best cut whose long blocks have one length.
struct LengthChoice {
  std::int64_t long_rows = 0; ///< rows or columns of the cut axis; all of it: uncut
  Plan plan;                  ///< strategy "given", no runners-up; the best plan itself at its length
  bool operator==(const LengthChoice&) const = default;
};

/// What the length of the blocks is worth.
struct LengthComparison {
  std::vector<LengthChoice> choices; ///< ascending; at most kMaxLengthCount + 2
  std::size_t best_index = 0;        ///< of the choice that is make_plan()'s plan
  [[nodiscard]] const Plan& best() const { return choices[best_index].plan; }
};

/// The length that names a cut: of most of its blocks; of the longest among lengths that are as frequent.
[[nodiscard]] std::int64_t long_rows_of(const Cut& cut);

/// Longer axes are compared in coarser steps than the alignment.
inline constexpr std::int64_t kMaxLengthCount = 128;

/// For every multiple of the alignment, the cut that is expected to be fastest - variant, number of such blocks, and
/// place of the block that takes the rest - of those whose long blocks take at least half of the axis; last the uncut
/// plan. Lengths that need more than max_block_count blocks are left out. The plan that make_plan() chooses is the
/// choice of its length, whatever else is true of it.
/// Errors: as make_plan.
[[nodiscard]] Result<LengthComparison> compare_lengths(const OpSpec& op, const CostModel& model,
                                                       const PlanOptions& options, const StopCheck& is_stopped = {});

} // namespace mc2::planner

#pragma GCC visibility pop
