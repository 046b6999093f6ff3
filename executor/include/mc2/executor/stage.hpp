#pragma once

#include <cstdint>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

/// One block of the cut axis: with row shards, these rows of every rank's shard; where planner::cut_axis() is
/// Columns, columns instead of rows.
struct Stage {
  std::int64_t first_row = 0;
  std::int64_t row_count = 0;
  bool operator==(const Stage&) const = default;
};

/// A lowered plan: what each lane does, in order. Stage i of the second lane starts when stage i of the first lane is
/// done on every rank that it needs data from.
struct StageList {
  planner::OpSpec op;
  planner::Lane first_lane = planner::Lane::Compute;
  std::vector<Stage> stages; ///< one per block; both lanes pass them in this order
  /// Kinds with a local part: a fused run multiplies the rank's own shard at once. False: only when the first stage has
  /// arrived, so that the uncut operator does not overlap at all.
  bool is_local_first = true;
  /// The fused run is the serial one. One stage only.
  bool is_serial = false;
  bool operator==(const StageList&) const = default;
};

/// Lowers a cut of an operator to stages.
/// Errors: InvalidSpec when the operator is illegal or the blocks are not positive or do not sum to the cut axis.
[[nodiscard]] planner::Result<StageList> lower(const planner::OpSpec& op, const planner::Cut& cut);

} // namespace mc2::executor

#pragma GCC visibility pop
