#include "backends/cuda/bound_plan.hpp"

#include <utility>

#include "backends/cuda/cuda_checks.hpp"
#include "mc2/planner/collective.hpp"

namespace mc2::executor::cuda {
namespace {

Stage whole(const StageList& list) noexcept {
  const Stage& last = list.stages.back();
  return {.first_row = 0, .row_count = last.first_row + last.row_count};
}

} // namespace

MatrixAddresses addresses_of(const RankBuffers& buffers) noexcept {
  return {buffers.a.data(),
          buffers.b.data(),
          buffers.c.data(),
          buffers.gathered_a.data(),
          buffers.bias.data(),
          buffers.residual.data(),
          buffers.norm_weight.data(),
          buffers.normed.data(),
          buffers.device_send_counts.data(),
          buffers.choices.experts.data(),
          buffers.choices.weights.data()};
}

void Matmuls::enqueue(cudaStream_t stream) const {
  for (const Gemm& gemm : gemms) gemm.enqueue(stream);
  if (grouped) grouped->enqueue(stream);
  if (chosen) chosen->enqueue(stream);
}

void RankState::keep_memory() noexcept {
  for (auto* memory :
       {&exchange, &spare, &staging, &tile_memory, &transposed_b, &row_copy_memory, &grouped_memory, &chosen_scratch})
    (void)memory->release();
  if (routing) routing->keep_memory();
  if (sorter) sorter->keep_memory();
  (void)bag_fault.release();
  (void)tiles.release();
}

BoundPlan::BoundPlan(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
                     std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers,
                     std::optional<RowRuns> row_runs)
    : communicator(communicator),
      list(stages),
      variant(variant),
      transport(std::move(transport)),
      row_runs(std::move(row_runs)),
      reads_device_counts(cuda::reads_device_counts(buffers)),
      gathers_first(stages.first_lane == planner::Lane::Communication),
      cuts_columns(planner::cut_axis(stages.op) == planner::CutAxis::Columns),
      ranks(buffers.size()) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].buffers = buffers[i];
    ranks[i].buffers.send_counts = ranks[i].buffers.receive_counts = {}; // valid during prepare() only
    ranks[i].prepared_with = ranks[i].buffers;
  }
}

std::int64_t BoundPlan::a_rows(int rank) const noexcept {
  return row_runs && !reads_device_counts ? row_runs->splits().sent_rows(rank) : operand_shapes(list.op).a.rows;
}

std::int64_t BoundPlan::c_rows(int rank) const noexcept {
  return row_runs && !reads_device_counts ? row_runs->splits().received_rows(rank) : operand_shapes(list.op).c.rows;
}

bool BoundPlan::is_on_second_stream(std::size_t stage, int slice) const noexcept {
  const auto count = static_cast<std::size_t>(transport->slice_count());
  return uses_two_streams() && (stage * count + static_cast<std::size_t>(slice)) % 2 == 0;
}

bool BoundPlan::carries_at_once(RunMode mode) const noexcept {
  return variant.stores_tiles && (mode == RunMode::CommunicationOnly || mode == RunMode::Independent);
}

bool BoundPlan::finishes_blocks(RunMode mode) const noexcept {
  const bool has_whole_rows = !cuts_columns || list.stages.size() == 1;
  return planner::sums_over_ranks(list.op.kind) && has_whole_rows && !carries_at_once(mode);
}

RowEpilogue BoundPlan::epilogue_of(int rank, const Stage& rows) const {
  const planner::OpSpec& op = list.op;
  const RankBuffers& buffers = state_of(rank).buffers;
  const planner::DType dtype = planner::product_type(op);
  const planner::Epilogue left = result_epilogue(op);
  const std::int64_t offset = rows.first_row * op.n * planner::size_bytes(dtype);
  const bool has_norm = left.norm != planner::Norm::None;
  return {.c = buffers.c.data() + offset,
          .bias = left.has_bias ? buffers.bias.data() : nullptr,
          .residual = left.has_residual ? buffers.residual.data() + offset : nullptr,
          .norm_weight = has_norm ? buffers.norm_weight.data() : nullptr,
          .normed = has_norm ? buffers.normed.data() + offset : nullptr,
          .norm_epsilon = buffers.norm_epsilon,
          .row_count = rows.row_count,
          .columns = op.n,
          .dtype = dtype};
}

BlockExchange BoundPlan::row_exchange_of(std::size_t stage, RunMode mode) const {
  const Stage& block = list.stages[stage];
  BlockExchange exchange{.element_count = gathers_first ? list.op.k : list.op.n,
                         .row_runs = &*row_runs,
                         .first_row = block.first_row,
                         .row_count = block.row_count,
                         .meets_before = !gathers_first,
                         .meets_after = stage + 1 == list.stages.size(),
                         .is_last = stage + 1 == list.stages.size()};
  const bool copies_own = !gathers_first || mode == RunMode::Serial;
  exchange.copies_own = copies_own && !reads_device_counts;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const Places& at = places[rank];
    std::byte* const between = mode == RunMode::Independent ? at.spare : at.exchange;
    exchange.send[rank] = gathers_first ? at.a : between;
    exchange.receive[rank] = gathers_first ? between : at.c;
  }
  for (const int rank : communicator.local_ranks()) {
    RowCopies& copies = exchange.row_copies[static_cast<std::size_t>(rank)] = state_of(rank).row_copies[stage];
    // The list has an entry for every expert of all ranks; the rank's own experts are last.
    if (reads_device_counts && !copies_own) copies.count -= static_cast<int>(list.op.experts_per_rank);
  }
  return exchange;
}

BlockExchange BoundPlan::exchange_of(std::size_t stage, RunMode mode) const {
  if (row_runs) return row_exchange_of(stage, mode);
  const planner::OpSpec op = exchanged_as(list.op);
  const Stage block = carries_at_once(mode) ? whole(list) : list.stages[stage];
  const std::int64_t element_bytes = planner::size_bytes(op.dtype);
  const std::int64_t columns = gathers_first ? op.k : op.n;
  const planner::OpTraits& traits = planner::traits_of(op.kind);
  const std::int64_t shards = traits.has_row_shards ? op.world_size : 1;
  const std::int64_t unit_elements = cuts_columns ? op.m : columns; // elements per row or column of exchange memory
  const std::int64_t piece_offset = block.first_row * unit_elements * element_bytes;
  const std::int64_t shard_elements = op.m / op.world_size * columns;
  const bool is_last = block.first_row + block.row_count == whole(list).row_count;
  // Peers' writes to C must have arrived before the epilogue works on it.
  const bool is_finished =
      finishes_blocks(mode) && transport->writes_to_peers() && !result_epilogue(list.op).is_empty();
  BlockExchange exchange{.element_count = block.row_count * unit_elements,
                         .meets_before = !gathers_first,
                         .meets_after = is_last || is_finished,
                         .is_last = is_last && mode != RunMode::Independent,
                         .leaves_sum = variant.stores_tiles && mode == RunMode::Independent,
                         .copies_own = traits.moves_products() || (gathers_first && mode == RunMode::Serial)};
  // In the exchange memory the pieces of a block touch, unless the memory holds the products of all tiles. In A and C
  // they are a shard apart.
  if (gathers_first && !traits.gathers_a) exchange.send_stride = shard_elements;
  if (shards > 1 && !gathers_first)
    exchange.send_stride = variant.stores_tiles ? shard_elements : exchange.element_count;
  if (gathers_first) exchange.receive_stride = exchange.element_count;
  if (traits.moves_products()) exchange.receive_stride = shard_elements;
  if (traits.lands_side_by_side) {
    exchange.receive_stride = exchange.row_elements = columns;
    exchange.receive_pitch = op.world_size * columns;
  }
  std::int64_t landing_offset = traits.lands_side_by_side ? op.world_size * piece_offset : piece_offset;
  if (cuts_columns) {
    landing_offset = block.first_row * element_bytes;
    exchange.row_elements = block.row_count < op.n ? block.row_count : 0;
    exchange.receive_pitch = op.n;
  }
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const Places& at = places[rank];
    if (at.exchange == nullptr) continue; // a rank of another process whose memory is not reached
    std::byte* shared =
        (mode == RunMode::Independent ? at.spare : at.exchange) + (variant.stores_tiles ? 1 : shards) * piece_offset;
    exchange.send[rank] = gathers_first ? at.a + piece_offset : shared;
    // if C is null because it is not reached, the differences between blocks' addresses are still right
    exchange.receive[rank] = gathers_first ? shared : at.c + landing_offset;
    if (at.staging != nullptr) exchange.staging[rank] = at.staging + (shards - 1) * piece_offset;
  }
  return exchange;
}

std::vector<BlockExchange> BoundPlan::exchanges(std::size_t count, RunMode mode) const {
  std::vector<BlockExchange> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(exchange_of(i, mode));
  return blocks;
}

} // namespace mc2::executor::cuda
