#pragma once

#include <cstdint>
#include <vector>

#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// The best cut whose long blocks have one length.
struct LengthChoice {
  std::int64_t long_rows = 0; ///< rows or columns of the cut axis; the whole axis means uncut
  Plan plan;                  ///< has strategy "given" and no runners-up; at best_index it is make_plan()'s plan
  bool operator==(const LengthChoice&) const = default;
};

/// The best cut for each of several block lengths.
struct LengthComparison {
  std::vector<LengthChoice> choices; ///< ascending; at most kMaxLengthCount + 2
  std::size_t best_index = 0;        ///< index of the choice that holds make_plan()'s plan
  [[nodiscard]] const Plan& best() const { return choices[best_index].plan; }
};

/// The most frequent block length of a cut; of equally frequent lengths, the longest.
[[nodiscard]] std::int64_t long_rows_of(const Cut& cut);

/// Most lengths that are compared. An axis with more multiples of the alignment is compared in coarser steps.
inline constexpr std::int64_t kMaxLengthCount = 128;

/// For every multiple of the alignment, the cut with long blocks of that length that is expected to be fastest, over
/// all variants, numbers of long blocks and places of the block that takes the rest. The long blocks take at least half
/// of the axis. The uncut plan comes last. Lengths that need more than max_block_count blocks are left out.
/// make_plan()'s plan is always the choice for its own length, even where another cut of that length is predicted
/// faster. Errors: as make_plan, and InvalidSpec for options with counts.
[[nodiscard]] Result<LengthComparison> compare_lengths(const OpSpec& op, const CostModel& model,
                                                       const PlanOptions& options, const StopCheck& is_stopped = {});

} // namespace mc2::planner

#pragma GCC visibility pop
