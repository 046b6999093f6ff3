#include "mc2/executor/buffer.hpp"

namespace mc2::executor {

OperandShapes operand_shapes(const planner::OpSpec& op) noexcept {
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
  return shapes;
}

} // namespace mc2::executor
