#include "mc2/executor/buffer.hpp"

namespace mc2::executor {

OperandShapes operand_shapes(const planner::OpSpec& op) {
  OperandShapes shapes{.a = {op.m, op.k}, .b = {op.k, op.n}, .c = {op.m, op.n}};
  switch (op.kind) {
    case planner::OpKind::MatmulAllReduce:
    case planner::OpKind::MatmulAllToAll:
    case planner::OpKind::AllToAllMatmul: break;
    case planner::OpKind::MatmulReduceScatter: shapes.c.rows = op.m / op.world_size; break;
    case planner::OpKind::AllGatherMatmul: shapes.a.rows = op.m / op.world_size; break;
    case planner::OpKind::EmbeddingAllToAll:
      shapes.a = {};
      shapes.b = {op.tables->table_count * op.tables->row_count, op.n / op.tables->table_count};
      shapes.c = {op.m / op.world_size, op.world_size * op.n};
      break;
  }
  if (op.epilogue.has_bias) shapes.bias = {1, op.n};
  if (op.epilogue.has_residual) shapes.residual = shapes.c;
  if (op.dtype == planner::DType::F8E4m3) shapes.a_scales = shapes.b_scales = {1, 1};
  if (op.dtype != planner::DType::I8) return shapes;
  const bool communicates_first = planner::traits_of(op.kind).first_lane == planner::Lane::Communication;
  shapes.a_scales = {1, communicates_first ? op.world_size : 1};
  shapes.b_scales = {1, op.n};
  return shapes;
}

MatrixShape gathered_a_shape(const planner::OpSpec& op) noexcept { return {op.m, op.k}; }

} // namespace mc2::executor
