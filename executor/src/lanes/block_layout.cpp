#include "lanes/block_layout.hpp"

#include <algorithm>

#include "mc2/planner/collective.hpp"

namespace mc2::executor::lanes {
namespace {

std::int64_t row_bytes(planner::DType dtype, std::int64_t columns) { return columns * planner::size_bytes(dtype); }

/// How many rows of A (`is_a`) or of the product a row of the operator has: where rows choose experts, one of the two
/// has a row for each choice.
std::int64_t choices_in(const planner::OpSpec& op, bool is_a) {
  return is_a != communicates_first(op) ? planner::products_per_row(op) : 1;
}

/// 0 for pooling, which has no A.
std::int64_t a_row_bytes(const planner::OpSpec& op) {
  return op.tables ? 0 : choices_in(op, true) * row_bytes(op.dtype, op.k);
}

std::int64_t product_row_bytes(const planner::OpSpec& op) {
  return choices_in(op, false) * row_bytes(planner::product_type(op), op.n);
}

std::int64_t exchanged_row_bytes(const planner::OpSpec& op) {
  return communicates_first(op) ? a_row_bytes(op) : product_row_bytes(op);
}

/// Whether the rows of `run` lie directly below those of `last`, in A and in the product, with the same scale and B.
bool continues(const planner::OpSpec& op, const MatmulRun& last, const MatmulRun& run) {
  return last.first_row + last.shape.rows == run.first_row && last.a + last.shape.rows * a_row_bytes(op) == run.a &&
         last.product + last.shape.rows * product_row_bytes(op) == run.product && last.a_scale == run.a_scale &&
         last.expert == run.expert;
}

void add_run(const planner::OpSpec& op, MatmulWork& work, const MatmulRun& run) {
  if (!work.runs.empty() && continues(op, work.runs.back(), run)) {
    work.runs.back().shape.rows += run.shape.rows;
  } else {
    work.runs.push_back(run);
  }
}

bool lands_side_by_side(const planner::OpSpec& op) { return planner::traits_of(op.kind).lands_side_by_side; }

bool has_shards(const planner::OpSpec& op) { return planner::traits_of(op.kind).has_row_shards; }

bool cuts_columns(const planner::OpSpec& op) { return planner::cut_axis(op) == planner::CutAxis::Columns; }

/// How many rows of a stage a shard of this length has.
std::int64_t length_in(const Stage& stage, std::int64_t length) {
  return std::clamp<std::int64_t>(length - stage.first_row, 0, stage.row_count);
}

/// The row of the intermediate where a shard's rows of a stage start.
/// @param shard_row  the shard's first row if the intermediate is not staged
std::int64_t intermediate_row(const planner::OpSpec& op, const RankMatrices& of, const Stage& stage, int shard,
                              std::int64_t shard_row) {
  if (of.is_staged) return op.world_size * stage.first_row + shard * stage.row_count;
  return shard_row + stage.first_row;
}

/// The length of the cut axis, in rows or columns, that one rank has for another.
std::int64_t pair_length(const planner::OpSpec& op, const RowSplits& splits, int from, int to) {
  return cuts_columns(op) ? op.n : splits.count(from, to);
}

/// The address of the scale of a sender's A. Kinds that communicate first have the scales of all ranks' A.
const std::byte* a_scale_of(const planner::OpSpec& op, const RankBuffers& own, int sender) {
  if (own.a_scales.empty()) return nullptr;
  return own.a_scales.data() + (communicates_first(op) ? sender * planner::size_bytes(planner::DType::F32) : 0);
}

/// A run that writes rows of C, with their residual, for kinds that communicate first.
MatmulRun run_into_c(const planner::OpSpec& op, const RankBuffers& own, const std::byte* a, std::int64_t row) {
  const std::int64_t offset = row * product_row_bytes(op);
  return {.a = a,
          .product = own.c.data() + offset,
          .shape = {},
          .first_row = row,
          .residual = own.residual.empty() ? nullptr : own.residual.data() + offset,
          .a_scale = nullptr};
}

/// One expert's part of an operand that consists of equal parts, one for each of a rank's experts.
std::span<const std::byte> part_of(std::span<const std::byte> all, int expert, std::int64_t expert_count) {
  const std::size_t size = all.size() / static_cast<std::size_t>(expert_count);
  return all.subspan(size * static_cast<std::size_t>(expert), size);
}

bool has_part_of(const StagePart& part, int peer) { return !part.only_from || *part.only_from == peer; }

/// A run without a shape. `row` is its first row in the caller's matrix (C in kinds that communicate first, else A);
/// `between_row` is its first row in the intermediate, which is the other matrix.
MatmulRun run_at(const planner::OpSpec& op, const RankMatrices& own, std::int64_t row, std::int64_t between_row) {
  if (communicates_first(op))
    return run_into_c(op, own.buffers, own.intermediate.data() + between_row * a_row_bytes(op), row);
  return {.a = own.buffers.a.data() + row * a_row_bytes(op),
          .product = own.intermediate.data() + between_row * product_row_bytes(op),
          .shape = {},
          .first_row = row};
}

/// The run of a block of columns, which has all rows.
MatmulRun columns_run(const planner::OpSpec& op, const Stage& stage, const RankMatrices& own) {
  return {.a = own.buffers.a.data(),
          .product = own.intermediate.data() + piece_bytes(op, stage.first_row),
          .shape = {op.m, stage.first_row, stage.row_count},
          .a_scale = a_scale_of(op, own.buffers, 0)};
}

template <typename Byte>
Byte* at(Byte* start, std::int64_t offset) {
  return start == nullptr ? nullptr : start + offset;
}

/// The norm's target for rows that begin `offset` bytes into C.
NormTarget norm_target(const RankBuffers& own, std::int64_t offset) {
  if (own.normed.empty()) return {};
  return {.rows = own.normed.data() + offset, .weight = own.norm_weight.data(), .epsilon = own.norm_epsilon};
}

double flop_count(const planner::OpSpec& op, const MatmulWork& work) {
  double count = 0;
  for (const MatmulRun& run : work.runs)
    count += op.flop_count(run.shape.rows) * static_cast<double>(run.shape.columns) / static_cast<double>(op.n);
  return count;
}

} // namespace

bool communicates_first(const planner::OpSpec& op) noexcept { return planner::traits_of(op.kind).communicates_first(); }

std::int64_t intermediate_bytes(const planner::OpSpec& op) noexcept { return op.m * exchanged_row_bytes(op); }

std::int64_t piece_bytes(const planner::OpSpec& op, std::int64_t length) noexcept {
  if (cuts_columns(op)) return op.m * row_bytes(planner::product_type(op), length);
  return length * exchanged_row_bytes(op);
}

GemmWeights gemm_weights(const planner::OpSpec& op, const RankBuffers& own, int expert) {
  const bool adds_bias = !planner::sums_over_ranks(op.kind);
  const auto of_expert = [&](std::span<const std::byte> all) {
    return part_of(all, expert, planner::matrix_count(op));
  };
  return {.b = of_expert(own.b),
          .b_scales = of_expert(own.b_scales),
          .bias = adds_bias ? of_expert(own.bias) : std::span<const std::byte>{},
          .has_residual = communicates_first(op) && op.epilogue.has_residual,
          .keeps_f32 = op.experts && !adds_bias};
}

RowPitch landing_pitch(const planner::OpSpec& op) noexcept {
  const std::int64_t bytes = exchanged_row_bytes(op);
  return {.row_bytes = bytes, .pitch_bytes = lands_side_by_side(op) ? op.world_size * bytes : bytes};
}

namespace {

/// Adds the runs that a rank multiplies for a peer in a stage, with separate runs for each expert.
void add_runs_of(const planner::OpSpec& op, const RowSplits& splits, std::pair<int, int> rank_and_peer,
                 const Stage& stage, const RankMatrices& own, MatmulWork& work) {
  const auto [rank, peer] = rank_and_peer;
  const std::int64_t start =
      communicates_first(op) ? splits.receive_offset(rank, peer) : splits.send_offset(rank, peer);
  const std::int64_t between_row = intermediate_row(op, own, stage, peer, start) - stage.first_row;
  for (const ExpertRows& rows : splits.rows_by_expert(rank, peer)) {
    const std::int64_t first = std::max(rows.first, stage.first_row);
    const std::int64_t end = std::min(rows.first + rows.count, stage.first_row + stage.row_count);
    if (first >= end) continue;
    MatmulRun run = run_at(op, own, rows.row + first - rows.first, between_row + first);
    run.shape = {end - first, 0, op.n};
    run.a_scale = a_scale_of(op, own.buffers, peer);
    run.expert = rows.expert;
    add_run(op, work, run);
  }
}

} // namespace

MatmulWork part_work(const planner::OpSpec& op, const RowSplits& splits, int rank, const StagePart& part,
                     const RankMatrices& own) {
  const Stage& stage = part.stage;
  MatmulWork work;
  const bool is_received = communicates_first(op);
  if (cuts_columns(op)) work.runs = {columns_run(op, stage, own)};
  for (int peer = 0; !cuts_columns(op) && peer < (has_shards(op) ? op.world_size : 1); ++peer) {
    if (is_received && peer == rank) continue;
    if (has_part_of(part, peer)) add_runs_of(op, splits, {rank, peer}, stage, own, work);
  }
  // Sorted by expert, so that an expert's weights stay in the caches for the rows of all ranks.
  std::ranges::stable_sort(work.runs, {}, &MatmulRun::expert);
  work.flop_count = flop_count(op, work);
  return work;
}

MatmulWork local_work(const planner::OpSpec& op, const RowSplits& splits, int rank, const RankMatrices& own) {
  if (!planner::traits_of(op.kind).has_local_part || splits.count(rank, rank) == 0) return {};
  MatmulWork work;
  for (const ExpertRows& rows : splits.rows_by_expert(rank, rank)) {
    if (rows.count == 0) continue;
    const std::int64_t a_row = splits.send_offset(rank, rank) + rows.first;
    MatmulRun run = run_into_c(op, own.buffers, own.buffers.a.data() + a_row * a_row_bytes(op), rows.row);
    run.shape = {rows.count, 0, op.n};
    run.a_scale = a_scale_of(op, own.buffers, rank);
    run.expert = rows.expert;
    work.runs.push_back(run);
  }
  work.flop_count = flop_count(op, work);
  return work;
}

SumTarget sum_target(const planner::OpSpec& op, const Stage& stage, const RankMatrices& own) noexcept {
  if (!planner::sums_over_ranks(op.kind)) return {};
  const RankBuffers& buffers = own.buffers;
  const std::int64_t column_offset = cuts_columns(op) ? row_bytes(planner::product_type(op), stage.first_row) : 0;
  const std::int64_t offset = cuts_columns(op) ? column_offset : stage.first_row * product_row_bytes(op);
  const bool has_whole_rows = !cuts_columns(op) || stage.row_count == op.n;
  return {.first = buffers.c.data() + offset,
          .columns = cuts_columns(op) ? stage.row_count : op.n,
          .row_stride = op.n,
          .bias = buffers.bias.empty() ? nullptr : buffers.bias.data() + column_offset,
          .residual = buffers.residual.empty() ? nullptr : buffers.residual.data() + offset,
          .norm = has_whole_rows ? norm_target(buffers, offset) : NormTarget{}};
}

bool norms_after_blocks(const StageList& list) noexcept {
  return list.op.epilogue.norm != planner::Norm::None && cuts_columns(list.op) && list.stages.size() > 1;
}

void norm_result(const planner::OpSpec& op, const RankMatrices& own) noexcept {
  const std::int64_t row_count = operand_shapes(op).c.rows;
  rms_norm(planner::product_type(op), own.buffers.c.data(), row_count, op.n, norm_target(own.buffers, 0));
}

void complete_gathered_a(const StageList& list, int rank, const RankMatrices& own) noexcept {
  const planner::OpSpec& op = list.op;
  const std::int64_t shard_rows = op.m / op.world_size;
  const auto put = [&](std::int64_t row, const std::byte* from, std::int64_t row_count) {
    std::copy_n(from, piece_bytes(op, row_count), own.buffers.gathered_a.data() + piece_bytes(op, row));
  };
  put(rank * shard_rows, own.buffers.a.data(), shard_rows);
  if (!own.is_staged) return; // the other ranks' rows have arrived in place
  for (const Stage& stage : list.stages) {
    for (int shard = 0; shard < op.world_size; ++shard) {
      if (shard == rank) continue;
      const std::int64_t row = shard * shard_rows;
      const std::int64_t staged_row = intermediate_row(op, own, stage, shard, row);
      put(row + stage.first_row, own.intermediate.data() + piece_bytes(op, staged_row), stage.row_count);
    }
  }
}

void locate_pieces(const planner::OpSpec& op, const RowSplits& splits, const ExchangeSite& site,
                   std::span<const RankMatrices> ranks, PieceAddresses& pieces) noexcept {
  const Stage& stage = site.part.stage;
  const auto intermediate_of = [&](const RankMatrices& of) {
    return (site.uses_spare ? of.spare_intermediate : of.intermediate).data();
  };
  const auto in_intermediate = [&](const RankMatrices& of, int shard, std::int64_t shard_row) {
    return at(intermediate_of(of), piece_bytes(op, intermediate_row(op, of, stage, shard, shard_row)));
  };
  const auto piece_of = [&](int from, int to) -> const std::byte* { // in the memory of `from`
    const RankMatrices& sender = ranks[static_cast<std::size_t>(from)];
    const std::int64_t row = splits.send_offset(from, to);
    if (!communicates_first(op)) return in_intermediate(sender, to, row);
    return at(sender.buffers.a.data(), piece_bytes(op, row + stage.first_row));
  };
  const auto bytes_of = [&](int from, int to) {
    return piece_bytes(op, length_in(stage, pair_length(op, splits, from, to)));
  };
  const auto landing_offset_of = [&](int from, int to) { // in C of `to`
    const std::int64_t first_row = lands_side_by_side(op) ? from : splits.receive_offset(to, from);
    return piece_bytes(op, first_row) + stage.first_row * landing_pitch(op).pitch_bytes;
  };
  const auto landing_of = [&](int from, int to) {
    const RankMatrices& receiver = ranks[static_cast<std::size_t>(to)];
    if (communicates_first(op)) return in_intermediate(receiver, from, splits.receive_offset(to, from));
    return at(receiver.buffers.c.data(), landing_offset_of(from, to));
  };
  const auto& residual = ranks[static_cast<std::size_t>(site.rank)].buffers.residual;
  const bool is_summed = planner::sums_over_ranks(op.kind);
  for (int peer = 0; peer < op.world_size; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    // The local part reads a rank's own rows in A, so they need no landing.
    const bool lands = !is_summed && !(communicates_first(op) && peer == site.rank);
    pieces.sources[index] = piece_of(peer, site.rank);
    pieces.outgoing[index] = piece_of(site.rank, peer);
    pieces.landings[index] = lands ? landing_of(peer, site.rank) : nullptr;
    pieces.remote_landings[index] = lands ? landing_of(site.rank, peer) : nullptr;
    pieces.residuals[index] = lands && !residual.empty() && !communicates_first(op)
                                  ? residual.data() + landing_offset_of(peer, site.rank)
                                  : nullptr;
    const bool is_received = (lands || is_summed) && has_part_of(site.part, peer);
    pieces.incoming_bytes[index] = is_received ? bytes_of(peer, site.rank) : 0;
    pieces.outgoing_bytes[index] = bytes_of(site.rank, peer);
  }
}

} // namespace mc2::executor::lanes
