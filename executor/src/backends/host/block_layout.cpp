#include "backends/host/block_layout.hpp"

#include "mc2/planner/collective.hpp"

namespace mc2::executor::host {
namespace {

std::int64_t row_bytes(const planner::OpSpec& op, std::int64_t columns) {
  return columns * planner::size_bytes(op.dtype);
}

std::int64_t shard_rows(const planner::OpSpec& op) { return op.m / op.world_size; }

/// Joins runs that lie one below the other in the product, and therefore in A.
void add_run(MatmulWork& work, const MatmulRun& run) {
  work.row_count += run.rows;
  if (!work.runs.empty() && work.runs.back().first_row + work.runs.back().rows == run.first_row) {
    work.runs.back().rows += run.rows;
  } else {
    work.runs.push_back(run);
  }
}

/// Bytes from one rank's piece to the next.
struct PieceStrides {
  std::int64_t sent = 0;   ///< in what a rank sends from; 0 where all get the same
  std::int64_t landed = 0; ///< in what the pieces make together: the rows brought to a rank, or its C
};

bool is_pooled(const planner::OpSpec& op) { return planner::traits_of(op.kind).work == planner::Work::Pooling; }

PieceStrides piece_strides(const planner::OpSpec& op) {
  const std::int64_t shard = planner::traits_of(op.kind).has_row_shards ? piece_bytes(op, shard_rows(op)) : 0;
  return {.sent = op.kind == planner::OpKind::AllGatherMatmul ? 0 : shard,
          .landed = is_pooled(op) ? row_bytes(op, op.n) : shard};
}

} // namespace

bool communicates_first(const planner::OpSpec& op) noexcept {
  return planner::traits_of(op.kind).first_lane == planner::Lane::Communication;
}

std::int64_t intermediate_bytes(const planner::OpSpec& op) noexcept {
  return op.m * row_bytes(op, communicates_first(op) ? op.k : op.n);
}

std::int64_t piece_bytes(const planner::OpSpec& op, std::int64_t rows) noexcept {
  return rows * row_bytes(op, communicates_first(op) ? op.k : op.n);
}

RowPitch landing_pitch(const planner::OpSpec& op) noexcept {
  const std::int64_t bytes = row_bytes(op, communicates_first(op) ? op.k : op.n);
  return {.row_bytes = bytes, .pitch_bytes = is_pooled(op) ? op.world_size * bytes : bytes};
}

MatmulWork stage_work(const planner::OpSpec& op, int rank, const Stage& stage, const RankMatrices& own) {
  const std::byte* a = communicates_first(op) ? own.intermediate.data() : own.buffers.a.data();
  std::byte* product = communicates_first(op) ? own.buffers.c.data() : own.intermediate.data();
  const std::int64_t a_row_bytes = is_pooled(op) ? 0 : row_bytes(op, op.k), product_row_bytes = row_bytes(op, op.n);
  const int shard_count = planner::traits_of(op.kind).has_row_shards ? op.world_size : 1;
  MatmulWork work;
  for (int shard = 0; shard < shard_count; ++shard) {
    if (communicates_first(op) && shard == rank) continue;
    const std::int64_t row = shard * shard_rows(op) + stage.first_row;
    add_run(work, {a + row * a_row_bytes, product + row * product_row_bytes, stage.row_count, row});
  }
  return work;
}

MatmulWork local_work(const planner::OpSpec& op, int rank, const RankMatrices& own) {
  if (!planner::traits_of(op.kind).has_local_part) return {};
  const std::byte* a = own.buffers.a.data() + rank * piece_strides(op).sent;
  std::byte* product = own.buffers.c.data() + rank * shard_rows(op) * row_bytes(op, op.n);
  return {.runs = {{a, product, shard_rows(op), rank * shard_rows(op)}}, .row_count = shard_rows(op)};
}

void locate_pieces(const planner::OpSpec& op, int rank, const Stage& stage, std::span<const RankMatrices> ranks,
                   bool uses_spare, PieceAddresses& pieces) noexcept {
  const auto intermediate_of = [&](const RankMatrices& of) {
    return (uses_spare ? of.spare_intermediate : of.intermediate).data();
  };
  const auto sent_by = [&](const RankMatrices& sender) {
    return communicates_first(op) ? sender.buffers.a.data() : intermediate_of(sender);
  };
  const auto own = static_cast<std::size_t>(rank);
  const PieceStrides strides = piece_strides(op);
  const std::int64_t offset = piece_bytes(op, stage.first_row);
  const std::int64_t landing_offset = stage.first_row * landing_pitch(op).pitch_bytes;
  const auto landing_of = [&](const RankMatrices& receiver) {
    return communicates_first(op) ? intermediate_of(receiver) : receiver.buffers.c.data();
  };
  const bool is_summed = planner::sums_over_ranks(op.kind);
  for (std::size_t peer = 0; peer < ranks.size(); ++peer) {
    const auto index = static_cast<std::int64_t>(peer);
    // The local part reads a rank's own rows of A where they are.
    const bool lands = !is_summed && !(communicates_first(op) && peer == own);
    pieces.sources[peer] = sent_by(ranks[peer]) + rank * strides.sent + offset;
    pieces.outgoing[peer] = sent_by(ranks[own]) + index * strides.sent + offset;
    pieces.landings[peer] = lands ? landing_of(ranks[own]) + index * strides.landed + landing_offset : nullptr;
    pieces.remote_landings[peer] = lands ? landing_of(ranks[peer]) + rank * strides.landed + landing_offset : nullptr;
  }
}

} // namespace mc2::executor::host
