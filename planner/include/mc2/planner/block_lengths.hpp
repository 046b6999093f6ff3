#pragma once

#include <cstdint>
#include <vector>

#include "mc2/planner/planner.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// The best cut whose long blocks have one length.
struct LengthChoice {
  std::int64_t long_rows = 0; ///< rows or columns of the cut axis; all of it: uncut
  Plan plan;                  ///< strategy "given", no runners-up
  bool operator==(const LengthChoice&) const = default;
};

/// Longer axes are compared in coarser steps than the alignment.
inline constexpr std::int64_t kMaxLengthCount = 128;

/// What the length of the blocks is worth: for every multiple of the alignment, the cut into as many such blocks as fit
/// that is expected to be fastest - variant, and place of the block that takes the rest - and last the uncut plan.
/// Lengths that leave a rest below min_block_rows put it into one block of theirs; those that need more than
/// max_block_count blocks are left out. Ascending; at most kMaxLengthCount + 1.
/// @param options  alignment, min_block_rows and max_block_count; what else it holds does not matter
/// Errors: as make_plan.
[[nodiscard]] Result<std::vector<LengthChoice>> compare_lengths(const OpSpec& op, const CostModel& model,
                                                                const PlanOptions& options,
                                                                const StopCheck& is_stopped = {});

} // namespace mc2::planner

#pragma GCC visibility pop
