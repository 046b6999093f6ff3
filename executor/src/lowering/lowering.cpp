#include "lowering/lowering.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace mc2::executor {
namespace {

using planner::Error;
using planner::ErrorCode;
using planner::Result;

struct LoweringRow {
  planner::OpKind kind;
  LowerFunction lower;
};

// In the order of the planner's operator table.
constexpr std::array kLoweringTable{
    LoweringRow{planner::OpKind::MatmulAllReduce, &lower_matmul_all_reduce},
    LoweringRow{planner::OpKind::MatmulReduceScatter, &lower_matmul_reduce_scatter},
    LoweringRow{planner::OpKind::AllGatherMatmul, &lower_all_gather_matmul},
    LoweringRow{planner::OpKind::MatmulAllToAll, &lower_matmul_all_to_all},
    LoweringRow{planner::OpKind::AllToAllMatmul, &lower_all_to_all_matmul},
    LoweringRow{planner::OpKind::EmbeddingAllToAll, &lower_embedding_all_to_all},
};

Result<void> check_blocks(const planner::Cut& cut, const planner::OpSpec& op) {
  const std::int64_t cut_axis_length = planner::traits_of(op.kind).cut_axis_length(op);
  const std::string unit = " " + std::string(to_string(planner::cut_axis(op)));
  std::int64_t remaining = cut_axis_length;
  for (std::size_t i = 0; i < cut.block_rows.size(); ++i) {
    const std::int64_t rows = cut.block_rows[i];
    if (rows < 1) {
      return Error{ErrorCode::InvalidSpec, "blocks[" + std::to_string(i) + "]",
                   "a block has " + std::to_string(rows) + unit + "; every block needs at least 1"};
    }
    if (rows > remaining) {
      return Error{ErrorCode::InvalidSpec, "blocks[" + std::to_string(i) + "]",
                   "the blocks exceed the " + std::to_string(cut_axis_length) + unit + " that are cut"};
    }
    remaining -= rows;
  }
  if (remaining != 0) {
    return Error{ErrorCode::InvalidSpec, "blocks",
                 "the blocks sum to " + std::to_string(cut_axis_length - remaining) + unit + "; they must sum to " +
                     std::to_string(cut_axis_length)};
  }
  return {};
}

} // namespace

StageList lower_in_order(const planner::OpSpec& op, const planner::Cut& cut) {
  StageList list{.op = op, .first_lane = planner::traits_of(op.kind).first_lane, .stages = {}};
  list.stages.reserve(cut.block_rows.size());
  std::int64_t first_row = 0;
  for (const std::int64_t rows : cut.block_rows) {
    list.stages.push_back({.first_row = first_row, .row_count = rows});
    first_row += rows;
  }
  return list;
}

Result<StageList> lower(const planner::OpSpec& op, const planner::Cut& cut) {
  if (auto legal = op.validate(); !legal) return legal.error();
  if (auto legal = check_blocks(cut, op); !legal) return legal.error();
  const auto* row = std::ranges::find(kLoweringTable, op.kind, &LoweringRow::kind);
  if (row == kLoweringTable.end()) {
    return Error{ErrorCode::Unsupported, "kind",
                 "the executor cannot run " + std::string(planner::to_string(op.kind)) + " yet"};
  }
  return row->lower(op, cut);
}

} // namespace mc2::executor
