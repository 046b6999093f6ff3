#include "mc2/executor/buffer.hpp"

#include "index_numbers.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor {

OperandShapes operand_shapes(const planner::OpSpec& op) {
  OperandShapes shapes{.a = {op.m, op.k}, .b = {planner::matrix_count(op) * op.k, op.n}, .c = {op.m, op.n}};
  const planner::OpTraits& traits = planner::traits_of(op.kind);
  const std::int64_t shared_rows = traits.has_row_shards ? op.m / op.world_size : op.m; // rows between two ranks
  if (traits.work == planner::Work::Pooling) {
    shapes.a = {};
    shapes.b = {op.tables->table_count * op.tables->row_count, op.n / op.tables->table_count};
  }
  if (traits.gathers_a) shapes.a.rows = shared_rows;
  if (traits.sums()) shapes.c.rows = shared_rows;
  (traits.sums() ? shapes.a : shapes.c).rows *= planner::products_per_row(op);
  if (traits.moves_products()) shapes.c.rows = op.world_size * shared_rows;
  if (traits.lands_side_by_side) shapes.c = {shared_rows, op.world_size * op.n};
  if (op.epilogue.has_bias) shapes.bias = {traits.sums() ? 1 : planner::matrix_count(op), op.n};
  if (op.epilogue.has_residual) shapes.residual = shapes.c;
  if (op.epilogue.norm != planner::Norm::None) {
    shapes.norm_weight = {1, op.n};
    shapes.normed = shapes.c;
  }
  if (op.dtype == planner::DType::F8E4m3) shapes.a_scales = shapes.b_scales = {1, 1};
  if (op.dtype != planner::DType::I8) return shapes;
  shapes.a_scales = {1, traits.communicates_first() ? op.world_size : 1};
  shapes.b_scales = {op.experts_per_rank, op.n};
  return shapes;
}

std::int64_t operand_bytes(const planner::OpSpec& op) {
  const std::int64_t number = size_bytes(IndexType::I64), factor = planner::size_bytes(planner::DType::F32);
  const OperandShapes shapes = operand_shapes(op);
  const std::int64_t inputs = shapes.a.element_count() + shapes.b.element_count();
  const std::int64_t scales = shapes.a_scales.element_count() + shapes.b_scales.element_count();
  std::int64_t results = 0; // elements of the product's type
  for (const MatrixShape& shape : {shapes.c, shapes.bias, shapes.residual, shapes.norm_weight, shapes.normed})
    results += shape.element_count();
  const std::int64_t bag_numbers = op.tables ? op.tables->table_count * op.m * (op.k + 1) : 0;
  const std::int64_t choices = op.experts ? op.m * op.experts->top_k : 0;
  return inputs * planner::size_bytes(op.dtype) + results * planner::size_bytes(planner::product_type(op)) +
         scales * factor + bag_numbers * number + choices * (number + factor);
}

MatrixShape gathered_a_shape(const planner::OpSpec& op) noexcept { return {op.m, op.k}; }

} // namespace mc2::executor
