#pragma once

#include "mc2/planner/op_spec.hpp"

namespace mc2::testing {

/// The operator with the settings that its kind needs besides sizes: 4 tables, or one where 4 do not divide the
/// columns; 5 experts, of which each row chooses 2.
inline planner::OpSpec completed(planner::OpSpec op) {
  switch (planner::traits_of(op.kind).work) {
    case planner::Work::Matmul: break;
    case planner::Work::Pooling:
      op.tables = {.table_count = op.n % 4 == 0 ? 4 : 1, .row_count = 50, .pooling = planner::Pooling::Mean};
      break;
    case planner::Work::GroupedMatmul: op.experts = {.count = 5, .top_k = 2}; break;
  }
  return op;
}

/// Whether a residual can be added to C: always, except where rows choose experts and their products are not summed.
inline bool takes_residual(const planner::OpSpec& op) { return !op.experts || planner::traits_of(op.kind).sums(); }

} // namespace mc2::testing
