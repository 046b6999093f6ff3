#include "lowering/lowering.hpp"

namespace mc2::executor {

StageList lower_matmul_all_reduce(const planner::OpSpec& op, const planner::Cut& cut) {
  StageList list{.op = op, .first_lane = planner::Lane::Compute, .stages = {}};
  list.stages.reserve(cut.block_rows.size());
  std::int64_t first_row = 0;
  for (const std::int64_t rows : cut.block_rows) {
    list.stages.push_back({.first_row = first_row, .row_count = rows});
    first_row += rows;
  }
  return list;
}

} // namespace mc2::executor
