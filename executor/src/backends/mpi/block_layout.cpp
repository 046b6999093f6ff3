#include "backends/mpi/block_layout.hpp"

namespace mc2::executor::mpi {
namespace {

std::int64_t row_bytes(const planner::OpSpec& op, std::int64_t columns) {
  return columns * planner::size_bytes(op.dtype);
}

int shard_count(const planner::OpSpec& op) { return planner::traits_of(op.kind).has_row_shards ? op.world_size : 1; }

/// Joins runs that lie one below the other in A and in the product.
void add_run(host::MatmulWork& work, const host::MatmulRun& run, const planner::OpSpec& op) {
  work.flop_count += 2.0 * static_cast<double>(run.shape.rows * op.n) * static_cast<double>(op.k);
  if (!work.runs.empty()) {
    host::MatmulRun& last = work.runs.back();
    if (last.a + last.shape.rows * row_bytes(op, op.k) == run.a &&
        last.product + last.shape.rows * row_bytes(op, op.n) == run.product) {
      last.shape.rows += run.shape.rows;
      return;
    }
  }
  work.runs.push_back(run);
}

} // namespace

std::int64_t exchanged_columns(const planner::OpSpec& op) noexcept {
  return host::communicates_first(op) ? op.k : op.n;
}

host::MatmulWork staged_work(const planner::OpSpec& op, int rank, const Stage& stage, const host::RankMatrices& own) {
  const bool is_gather = host::communicates_first(op);
  const std::int64_t shard_rows = op.m / op.world_size;
  host::MatmulWork work;
  for (int shard = 0; shard < shard_count(op); ++shard) {
    if (is_gather && shard == rank) continue;
    const std::int64_t natural = shard * shard_rows + stage.first_row;
    const std::int64_t staged = shard_count(op) * stage.first_row + shard * stage.row_count;
    const std::byte* a = is_gather ? own.intermediate.data() + staged * row_bytes(op, op.k)
                                   : own.buffers.a.data() + natural * row_bytes(op, op.k);
    std::byte* product = is_gather ? own.buffers.c.data() + natural * row_bytes(op, op.n)
                                   : own.intermediate.data() + staged * row_bytes(op, op.n);
    add_run(work, {.a = a, .product = product, .shape = {stage.row_count, 0, op.n}}, op);
  }
  return work;
}

BlockExchange exchange_of(const planner::OpSpec& op, const Stage& stage, const host::RankMatrices& own,
                          bool uses_spare) {
  const bool is_gather = host::communicates_first(op);
  const std::int64_t columns = exchanged_columns(op);
  const std::int64_t piece = stage.row_count * columns, shard = op.m / op.world_size * columns;
  const auto& intermediate = uses_spare ? own.spare_intermediate : own.intermediate;
  std::byte* staged = intermediate.data() + shard_count(op) * stage.first_row * row_bytes(op, columns);
  const std::int64_t offset = stage.first_row * row_bytes(op, columns);
  BlockExchange block{.kind = op.kind, .dtype = op.dtype, .row_count = stage.row_count, .piece_count = piece};
  block.send = is_gather ? own.buffers.a.data() + offset : staged;
  block.receive = is_gather ? staged : own.buffers.c.data() + offset;
  switch (op.kind) {
    case planner::OpKind::MatmulAllReduce: break;
    case planner::OpKind::MatmulReduceScatter: block.send_stride = piece; break;
    case planner::OpKind::AllGatherMatmul: block.receive_stride = piece; break;
    case planner::OpKind::MatmulAllToAll:
      block.send_stride = piece;
      block.receive_stride = shard;
      break;
    case planner::OpKind::AllToAllMatmul:
      block.send_stride = shard;
      block.receive_stride = piece;
      break;
    case planner::OpKind::EmbeddingAllToAll: break; // check_operator() refuses it
  }
  return block;
}

} // namespace mc2::executor::mpi
