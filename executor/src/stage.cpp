#include "stage.hpp"

#include <string>

namespace mc2::executor {

using planner::Schedule;

Result<StageList> lower(const planner::OpSpec& op, const planner::Cut& cut, Schedule schedule) {
  MC2_TRY(op.validate());
  MC2_TRY(planner::validate_cut(op, cut));
  if (schedule == Schedule::Serial && cut.block_rows.size() > 1)
    return Error{ErrorCode::InvalidSpec, "blocks",
                 "are " + std::to_string(cut.block_rows.size()) + "; one lane after the other takes one"};
  const planner::OpTraits& traits = planner::traits_of(op.kind);
  if (schedule == Schedule::LocalFirst && !traits.has_local_part) schedule = Schedule::Pipelined;
  StageList list{.op = op, .first_lane = traits.first_lane, .stages = {}, .schedule = schedule};
  list.stages.reserve(cut.block_rows.size());
  std::int64_t first_row = 0;
  for (const std::int64_t rows : cut.block_rows) {
    list.stages.push_back({.first_row = first_row, .row_count = rows});
    first_row += rows;
  }
  return list;
}

} // namespace mc2::executor
