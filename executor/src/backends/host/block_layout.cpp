#include "backends/host/block_layout.hpp"

namespace mc2::executor::host {
namespace {

std::int64_t row_bytes(const planner::OpSpec& op, std::int64_t columns) {
  return columns * planner::size_bytes(op.dtype);
}

std::int64_t shard_rows(const planner::OpSpec& op) { return op.m / op.world_size; }

/// Joins runs that lie one below the other in A and in the product.
void add_run(MatmulWork& work, const MatmulRun& run, std::int64_t a_row_bytes) {
  work.row_count += run.rows;
  if (!work.runs.empty() && work.runs.back().a + work.runs.back().rows * a_row_bytes == run.a) {
    work.runs.back().rows += run.rows;
  } else {
    work.runs.push_back(run);
  }
}

} // namespace

bool is_gather(const planner::OpSpec& op) noexcept { return op.kind == planner::OpKind::AllGatherMatmul; }

std::int64_t intermediate_bytes(const planner::OpSpec& op) noexcept {
  return op.m * row_bytes(op, is_gather(op) ? op.k : op.n);
}

std::int64_t piece_bytes(const planner::OpSpec& op, std::int64_t rows) noexcept {
  return rows * row_bytes(op, is_gather(op) ? op.k : op.n);
}

MatmulWork stage_work(const planner::OpSpec& op, int rank, const Stage& stage, const RankMatrices& own) {
  const std::byte* a = is_gather(op) ? own.intermediate.data() : own.buffers.a.data();
  std::byte* product = is_gather(op) ? own.buffers.c.data() : own.intermediate.data();
  const std::int64_t a_row_bytes = row_bytes(op, op.k), product_row_bytes = row_bytes(op, op.n);
  const int shard_count = planner::traits_of(op.kind).has_row_shards ? op.world_size : 1;
  MatmulWork work;
  for (int shard = 0; shard < shard_count; ++shard) {
    if (is_gather(op) && shard == rank) continue;
    const std::int64_t row = shard * shard_rows(op) + stage.first_row;
    add_run(work, {a + row * a_row_bytes, product + row * product_row_bytes, stage.row_count}, a_row_bytes);
  }
  return work;
}

MatmulWork local_work(const planner::OpSpec& op, int rank, const RankMatrices& own) {
  if (!planner::traits_of(op.kind).has_local_part) return {};
  std::byte* product = own.buffers.c.data() + rank * shard_rows(op) * row_bytes(op, op.n);
  return {.runs = {{own.buffers.a.data(), product, shard_rows(op)}}, .row_count = shard_rows(op)};
}

void locate_pieces(const planner::OpSpec& op, int rank, const Stage& stage, std::span<const RankMatrices> ranks,
                   bool uses_spare, PieceAddresses& pieces) noexcept {
  const auto intermediate_of = [&](std::size_t peer) {
    return (uses_spare ? ranks[peer].spare_intermediate : ranks[peer].intermediate).data();
  };
  const auto own = static_cast<std::size_t>(rank);
  const std::int64_t piece_row_bytes = row_bytes(op, is_gather(op) ? op.k : op.n);
  const std::int64_t stride = planner::traits_of(op.kind).has_row_shards ? shard_rows(op) * piece_row_bytes : 0;
  const std::int64_t offset = stage.first_row * piece_row_bytes;
  for (std::size_t peer = 0; peer < ranks.size(); ++peer) {
    const std::int64_t peer_offset = static_cast<std::int64_t>(peer) * stride + offset;
    if (is_gather(op)) {
      pieces.sources[peer] = ranks[peer].buffers.a.data() + offset;
      pieces.outgoing[peer] = ranks[own].buffers.a.data() + offset;
      pieces.landings[peer] = peer == own ? nullptr : intermediate_of(own) + peer_offset;
    } else {
      pieces.sources[peer] = intermediate_of(peer) + rank * stride + offset;
      pieces.outgoing[peer] = intermediate_of(own) + peer_offset;
      pieces.landings[peer] = nullptr;
    }
  }
}

} // namespace mc2::executor::host
