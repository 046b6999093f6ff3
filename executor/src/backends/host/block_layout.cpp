#include "backends/host/block_layout.hpp"

#include <algorithm>

#include "mc2/planner/collective.hpp"

namespace mc2::executor::host {
namespace {

std::int64_t row_bytes(const planner::OpSpec& op, std::int64_t columns) {
  return columns * planner::size_bytes(op.dtype);
}

/// Joins runs that lie one below the other in the product, and therefore in A.
void add_run(MatmulWork& work, const MatmulRun& run) {
  work.row_count += run.rows;
  if (!work.runs.empty() && work.runs.back().first_row + work.runs.back().rows == run.first_row) {
    work.runs.back().rows += run.rows;
  } else {
    work.runs.push_back(run);
  }
}

bool is_pooled(const planner::OpSpec& op) { return planner::traits_of(op.kind).work == planner::Work::Pooling; }

bool has_shards(const planner::OpSpec& op) { return planner::traits_of(op.kind).has_row_shards; }

/// Rows of a stage that a shard of `count` rows has.
std::int64_t rows_of(const Stage& stage, std::int64_t count) {
  return std::clamp<std::int64_t>(count - stage.first_row, 0, stage.row_count);
}

/// First row of what goes to a rank in what another sends from; all get the same where A is gathered or C reduced.
std::int64_t sent_row(const planner::OpSpec& op, const RowSplits& splits, int from, int to) {
  const bool is_shared = !has_shards(op) || op.kind == planner::OpKind::AllGatherMatmul;
  return is_shared ? 0 : splits.send_offset(from, to);
}

/// Rows that a rank has for another, on the cut axis.
std::int64_t pair_rows(const planner::OpSpec& op, const RowSplits& splits, int from, int to) {
  return has_shards(op) ? splits.count(from, to) : op.m;
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

MatmulWork stage_work(const planner::OpSpec& op, const RowSplits& splits, int rank, const Stage& stage,
                      const RankMatrices& own) {
  const bool is_received = communicates_first(op);
  const std::byte* a = is_received ? own.intermediate.data() : own.buffers.a.data();
  std::byte* product = is_received ? own.buffers.c.data() : own.intermediate.data();
  const std::int64_t a_row_bytes = is_pooled(op) ? 0 : row_bytes(op, op.k), product_row_bytes = row_bytes(op, op.n);
  MatmulWork work;
  for (int peer = 0; peer < (has_shards(op) ? op.world_size : 1); ++peer) {
    if (is_received && peer == rank) continue;
    const std::int64_t count = is_received ? pair_rows(op, splits, peer, rank) : pair_rows(op, splits, rank, peer);
    const std::int64_t rows = rows_of(stage, count);
    if (rows == 0) continue;
    const std::int64_t start = is_received ? splits.receive_offset(rank, peer) : sent_row(op, splits, rank, peer);
    const std::int64_t row = start + stage.first_row;
    add_run(work, {a + row * a_row_bytes, product + row * product_row_bytes, rows, row});
  }
  return work;
}

MatmulWork local_work(const planner::OpSpec& op, const RowSplits& splits, int rank, const RankMatrices& own) {
  if (!planner::traits_of(op.kind).has_local_part || splits.count(rank, rank) == 0) return {};
  const std::int64_t row = splits.receive_offset(rank, rank), rows = splits.count(rank, rank);
  const std::byte* a = own.buffers.a.data() + sent_row(op, splits, rank, rank) * row_bytes(op, op.k);
  std::byte* product = own.buffers.c.data() + row * row_bytes(op, op.n);
  return {.runs = {{a, product, rows, row}}, .row_count = rows};
}

void locate_pieces(const planner::OpSpec& op, const RowSplits& splits, const ExchangeSite& site,
                   std::span<const RankMatrices> ranks, PieceAddresses& pieces) noexcept {
  const auto intermediate_of = [&](const RankMatrices& of) {
    return (site.uses_spare ? of.spare_intermediate : of.intermediate).data();
  };
  const auto piece_of = [&](int from, int to) { // of what `from` sends
    const RankMatrices& sender = ranks[static_cast<std::size_t>(from)];
    const std::byte* start = communicates_first(op) ? sender.buffers.a.data() : intermediate_of(sender);
    return start + piece_bytes(op, sent_row(op, splits, from, to) + site.stage.first_row);
  };
  const auto bytes_of = [&](int from, int to) {
    return piece_bytes(op, rows_of(site.stage, pair_rows(op, splits, from, to)));
  };
  const std::int64_t landing_offset = site.stage.first_row * landing_pitch(op).pitch_bytes;
  const auto landing_of = [&](int from, int to) { // in what `to` gets
    const RankMatrices& receiver = ranks[static_cast<std::size_t>(to)];
    std::byte* const start = communicates_first(op) ? intermediate_of(receiver) : receiver.buffers.c.data();
    return start + piece_bytes(op, is_pooled(op) ? from : splits.receive_offset(to, from)) + landing_offset;
  };
  const bool is_summed = planner::sums_over_ranks(op.kind);
  for (int peer = 0; peer < op.world_size; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    // The local part reads a rank's own rows of A where they are.
    const bool lands = !is_summed && !(communicates_first(op) && peer == site.rank);
    pieces.sources[index] = piece_of(peer, site.rank);
    pieces.outgoing[index] = piece_of(site.rank, peer);
    pieces.landings[index] = lands ? landing_of(peer, site.rank) : nullptr;
    pieces.remote_landings[index] = lands ? landing_of(site.rank, peer) : nullptr;
    pieces.incoming_bytes[index] = lands || is_summed ? bytes_of(peer, site.rank) : 0;
    pieces.outgoing_bytes[index] = bytes_of(site.rank, peer);
  }
}

} // namespace mc2::executor::host
