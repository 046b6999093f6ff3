#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"

namespace mc2::executor {

/// One block of the cut axis. With row shards it has these rows of every rank's shard. Where planner::cut_axis() is
/// Columns, first_row and row_count count columns.
struct Stage {
  std::int64_t first_row = 0;
  std::int64_t row_count = 0;
  bool operator==(const Stage&) const = default;
};

/// The work of the lanes, in order. Stage i of the second lane starts when stage i of the first lane has ended on every
/// rank whose data it needs. The local part, where the kind has one, is no stage, because it waits for no rank.
struct StageList {
  planner::OpSpec op;
  planner::Lane first_lane = planner::Lane::Compute;
  std::vector<Stage> stages; ///< one per block; both lanes pass them in this order
  /// LocalFirst: a fused run multiplies the rank's own shard at once. Pipelined: when the first stage has arrived.
  planner::Schedule schedule = planner::Schedule::Pipelined;
  bool operator==(const StageList&) const = default;
};

/// The rows of the longest stage.
[[nodiscard]] inline std::int64_t longest_rows(const StageList& list) noexcept {
  return std::ranges::max_element(list.stages, {}, &Stage::row_count)->row_count;
}

/// Turns a cut into stages, with the kind's order of lanes. Schedule::LocalFirst becomes Pipelined for a kind without a
/// local part.
/// Errors: InvalidSpec when the operator is illegal, or a serial schedule has several blocks; as planner::validate_cut.
[[nodiscard]] Result<StageList> lower(const planner::OpSpec& op, const planner::Cut& cut, planner::Schedule schedule);

} // namespace mc2::executor
