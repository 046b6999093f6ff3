#pragma once

#include <cstdint>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "mc2/planner/plan.hpp"

namespace mc2::executor {

/// One block of the cut axis: with row shards, these rows of every rank's shard; where planner::cut_axis() is
/// Columns, columns instead of rows.
struct Stage {
  std::int64_t first_row = 0;
  std::int64_t row_count = 0;
  bool operator==(const Stage&) const = default;
};

/// What each lane does, in order. Stage i of the second lane starts when stage i of the first lane is done on every
/// rank that it needs data from. A rank's own shard, where the kind has one, is no stage: it waits for nobody.
struct StageList {
  planner::OpSpec op;
  planner::Lane first_lane = planner::Lane::Compute;
  std::vector<Stage> stages; ///< one per block; both lanes pass them in this order
  /// LocalFirst: a fused run multiplies the rank's own shard at once; Pipelined: when the first stage has arrived.
  planner::Schedule schedule = planner::Schedule::Pipelined;
  bool operator==(const StageList&) const = default;
};

/// Stages that follow each other on the cut axis, in the kind's own order of lanes. A schedule that puts first what the
/// kind does not have is Pipelined.
/// Errors: InvalidSpec when the operator is illegal, or a serial schedule has several blocks; as planner::validate_cut.
[[nodiscard]] Result<StageList> lower(const planner::OpSpec& op, const planner::Cut& cut, planner::Schedule schedule);

} // namespace mc2::executor
