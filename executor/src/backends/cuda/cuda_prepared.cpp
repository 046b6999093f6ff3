#include "backends/cuda/cuda_prepared.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "backends/cuda/cuda_checks.hpp"
#include "backends/cuda/kernels/transpose.hpp"
#include "bags.hpp"
#include "checks.hpp"
#include "mc2/planner/error.hpp"
#include "run_mode.hpp"
#include "run_turn.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::Lane;

int count_kernels(cudaGraph_t graph) {
  std::size_t count = 0;
  MC2_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  MC2_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  int kernel_count = 0;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    const cudaError_t code = cudaGraphNodeGetType(node, &type);
    if (code != cudaSuccess) (void)cudaGetLastError(); // the runtime has no name for batches of memory operations
    if (code == cudaSuccess && type == cudaGraphNodeTypeKernel) ++kernel_count;
  }
  return kernel_count;
}

} // namespace

CudaPrepared::CudaPrepared(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
                           std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers)
    : communicator_(communicator),
      list_(stages),
      variant_(variant),
      transport_(std::move(transport)),
      gathers_first_(stages.first_lane == Lane::Communication),
      cuts_columns_(planner::cut_axis(stages.op) == planner::CutAxis::Columns),
      ranks_(buffers.size()) {
  for (int rank = 0; rank < communicator.world_size(); ++rank) {
    record_.ranks.push_back({.rank = rank,
                             .compute = std::vector<StageTime>(list_.stages.size()),
                             .communication = std::vector<StageTime>(list_.stages.size()),
                             .local = {}});
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i].buffers = ranks_[i].prepared_with = buffers[i];
}

planner::Result<void> CudaPrepared::make_ready(const PrepareOptions& options) {
  const auto made = communicator_.attempt([&](int rank) {
    make_memory(rank, options);
    build(rank);
  });
  if (!made) return made;
  // Every rank's exchange memory exists before any rank captures a pointer to it.
  if (transport_->has_windows()) communicator_.run([this](int rank) { register_windows(rank); });
  share_places();
  span_length_ = shortest_span();
  const auto capture_graphs = [this](int rank) {
    if (transport_->takes_no_sm()) check_takes_no_sm(rank);
    if (variant_.stores_tiles) build_tiles(rank);
    capture(rank, RunMode::Fused);
    capture_enqueued(rank);
  };
  if (!transport_->reaches_peers())
    communicator_.run(capture_graphs); // NCCL connects its ranks meanwhile
  else if (auto captured = communicator_.attempt(capture_graphs); !captured)
    return captured;
  is_ready_ = true;
  return {};
}

void CudaPrepared::make_memory(int rank, const PrepareOptions& options) {
  RankState& state = state_of(rank);
  const auto byte_count = static_cast<std::size_t>(exchange_bytes(list_.op));
  state.exchange = make_exchange(rank, byte_count);
  if (options.allow_independent) state.spare = make_exchange(rank, byte_count);
  if (stages_pieces(list_.op, variant_))
    state.staging = make_exchange(rank, static_cast<std::size_t>(staging_bytes(list_.op)));
  if (variant_.stores_tiles)
    state.tile_memory = make_exchange(rank, static_cast<std::size_t>(tile_memory_bytes(list_, variant_.tile_columns)));
}

CudaPrepared::~CudaPrepared() {
  std::optional<RunTurn> turn; // in prepare() it is taken
  if (is_ready_) turn.emplace(communicator_.turn(), RunTurn::Waits{});
  bool is_over = !communicator_.has_failed();
  try { // the memory of runs under way is another plan's next
    for (const int rank : communicator_.local_ranks())
      if (state_of(rank).last_use) communicator_.wait(rank, state_of(rank).last_use);
  } catch (const std::exception& error) { // of an aborted communicator, or of a caller's stream that is held up
    is_over = false;
    std::fprintf(stderr, "mc2: level=error text=\"closing a plan: %s\"\n", error.what());
  }
  if (!is_over) {
    std::ranges::for_each(ranks_, &RankState::keep_memory);
    communicator_.keep(std::move(mappings_));
  }
  for (const int rank : communicator_.local_ranks()) {
    const OnDevice on_device(rank);
    if (communicator_.device(rank).last_use == state_of(rank).last_use.get())
      communicator_.device(rank).last_use = nullptr;
    state_of(rank).graphs = {}; // before the memory that they use
    state_of(rank).enqueued_graph = {};
    state_of(rank).moved_graphs.clear();
  }
  if (!transport_->has_windows()) return;
  try {
    communicator_.run([this](int rank) { transport_->release_memory(rank); });
  } catch (const std::exception& error) { // an aborted communicator has lost its windows already
    std::fprintf(stderr, "mc2: level=error text=\"releasing windows: %s\"\n", error.what());
  }
}

void CudaPrepared::RankState::keep_memory() noexcept {
  for (auto* memory : {&exchange, &spare, &staging, &tile_memory, &transposed_b}) (void)memory->release();
  (void)tiles.release();
}

/// The same on all ranks, although each knows only its own matrices' alignment where peers do not reach them.
std::size_t CudaPrepared::shortest_span() {
  const auto own = static_cast<std::int64_t>(transport_->span_length(exchanges(list_.stages.size(), RunMode::Fused)));
  return static_cast<std::size_t>(-communicator_.maximum(-own));
}

/// Zeros, so that a run of one lane alone works on finite numbers.
std::unique_ptr<DeviceMemory> CudaPrepared::make_exchange(int rank, std::size_t byte_count) {
  auto memory = std::make_unique<DeviceMemory>(*communicator_.device(rank).pool, byte_count);
  MC2_CUDA(cudaMemset(memory->bytes().data(), 0, byte_count));
  MC2_CUDA(cudaStreamSynchronize(nullptr)); // peers and other streams do not wait for it
  return memory;
}

void CudaPrepared::share_places() {
  const auto address = [](const std::unique_ptr<DeviceMemory>& memory) {
    return memory ? memory->bytes().data() : nullptr;
  };
  const bool is_shared = transport_->reaches_peers();
  const PeerReach reach = peer_reach();
  std::vector<std::vector<std::byte*>> own;
  for (const RankState& state : ranks_) {
    auto* const a = const_cast<std::byte*>(state.buffers.a.data()); // collectives only read it
    own.push_back({a, state.buffers.c.data(), address(state.exchange), address(state.spare), address(state.staging),
                   address(state.tile_memory)});
  }
  auto offered = own;
  for (auto& addresses : offered) {
    if (!reach.a) addresses[0] = nullptr;
    if (!reach.c) addresses[1] = nullptr;
    if (!is_shared) addresses.assign(addresses.size(), nullptr);
  }
  SharedAddresses all = communicator_.share(offered);
  for (const int rank : communicator_.local_ranks())
    all.of_rank[static_cast<std::size_t>(rank)] = own[communicator_.local_index(rank)];
  for (const auto& found : all.of_rank) places_.push_back({found[0], found[1], found[2], found[3], found[4], found[5]});
  mappings_ = std::move(all.mappings);
}

planner::Result<void> CudaPrepared::rebind(std::span<const RankBuffers> buffers) {
  using planner::Error;
  using planner::ErrorCode;
  const RunTurn turn(communicator_.turn());
  if (list_.op.tables)
    return Error{ErrorCode::Unsupported, "buffers",
                 "tables and bags stay where the plan was prepared with them; prepare it for others"};
  if (transport_->has_windows())
    return Error{ErrorCode::Unsupported, "variant",
                 "NCCL's windows are registered for the matrices that they were prepared with"};
  // NCCL wants one capture replayed by all ranks, or none: also where this rank's matrices are refused and others' are
  // taken.
  if (!transport_->reaches_peers()) has_stale_graphs_ = true;
  const auto ranks = communicator_.local_ranks();
  if (auto legal = check_buffers(list_.op, ranks, buffers); !legal) return legal.error();
  if (auto legal = check_places(ranks, buffers); !legal) return legal.error();
  for (const int rank : ranks) {
    const RankBuffers& next = buffers[communicator_.local_index(rank)];
    if (auto legal = check_replacement(rank, state_of(rank).prepared_with, next, peer_reach()); !legal)
      return legal.error();
  }
  for (const int rank : ranks) replace(rank, buffers[communicator_.local_index(rank)]);
  return {};
}

CudaPrepared::MatrixAddresses CudaPrepared::addresses_of(const RankBuffers& buffers) noexcept {
  return {buffers.a.data(), buffers.b.data(), buffers.c.data(), buffers.gathered_a.data()};
}

void CudaPrepared::replace(int rank, const RankBuffers& next) {
  RankState& state = state_of(rank);
  const RankBuffers now = std::exchange(state.buffers, next);
  if (transport_->reaches_peers() && addresses_of(now) == addresses_of(next)) return;
  has_stale_graphs_ = true;
  Places& places = places_[static_cast<std::size_t>(rank)];
  places.a = const_cast<std::byte*>(next.a.data()); // collectives only read it
  places.c = next.c.data();
  // Operands lie in the caller's matrices or in the exchange memory, which stays.
  const auto moved = [](const std::byte* address, std::span<const std::byte> from, std::span<const std::byte> to) {
    const bool is_inside = address >= from.data() && address < from.data() + from.size();
    return is_inside ? to.data() + (address - from.data()) : address;
  };
  const auto move = [&](Gemm& gemm) {
    const GemmOperands& old = gemm.operands();
    gemm.set_operands({.a = moved(old.a, now.a, next.a),
                       .b = moved(old.b, now.b, next.b),
                       .c = const_cast<std::byte*>(moved(old.c, now.c, next.c))});
  };
  for (auto& stage : state.gemms)
    for (auto& slice : stage) std::ranges::for_each(slice, move);
  std::ranges::for_each(state.serial_gemms, move);
  if (state.local_gemm) move(*state.local_gemm);
  if (state.tiles) bind_tiles(rank);
}

void CudaPrepared::build_tiles(int rank) {
  RankState& state = state_of(rank);
  std::vector<std::byte*> memory;
  for (const Places& places : places_) memory.push_back(places.tiles);
  const TileReduction::Options options{.tile_columns = variant_.tile_columns,
                                       .b_is_transposed = is_b_transposed(rank),
                                       .cta_count = variant_.gemm_sm_count};
  state.tiles = std::make_unique<TileReduction>(list_, rank, options, memory, communicator_.signals_of(rank).abort,
                                                *communicator_.device(rank).pool);
  bind_tiles(rank);
}

void CudaPrepared::bind_tiles(int rank) {
  const RankState& state = state_of(rank);
  const RankBuffers& buffers = state.buffers;
  TileReduction::Matrices matrices{
      .a = buffers.a.data(), .b = buffers.b.data(), .c = {}, .products = state.exchange->bytes().data()};
  for (std::size_t i = 0; i < places_.size(); ++i) matrices.c[i] = places_[i].c;
  state.tiles->bind(matrices);
}

void CudaPrepared::build(int rank) {
  RankState& state = state_of(rank);
  if (list_.op.tables)
    build_tables(rank);
  else if (!variant_.stores_tiles)
    build_gemms(rank);
  state.begin = make_event(true);
  state.compute_end = make_event(true);
  state.communication_end = make_event(true);
  state.finish = make_event(true);
  state.fork = make_event(false);
  state.entry = make_event(false);
  state.last_use = make_event(false);
  state.local = {make_event(true), make_event(true)};
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    auto& ready = state.ready.emplace_back();
    for (int slice = 0; slice < transport_->slice_count(); ++slice) ready.push_back(make_event(false));
    state.compute.push_back({make_event(true), make_event(true)});
    state.communication.push_back({make_event(true), make_event(true)});
  }
  MC2_CUDA(cudaDeviceSynchronize());
}

/// A matmul of rows of A or the exchange memory into rows of the exchange memory or C, whichever the kind has.
Gemm CudaPrepared::make_gemm(int rank, GemmContext& context, GemmShape shape, std::int64_t from_row,
                             std::int64_t to_row) {
  RankState& state = state_of(rank);
  const planner::OpSpec& op = list_.op;
  shape.dtype = op.dtype;
  shape.n = op.n;
  shape.k = op.k;
  shape.b_is_transposed = is_b_transposed(rank);
  shape.sm_count = variant_.gemm_sm_count;
  shape.tile = variant_.gemm_tile;
  const std::byte* from = gathers_first_ ? state.exchange->bytes().data() : state.buffers.a.data();
  std::byte* to = gathers_first_ ? state.buffers.c.data() : state.exchange->bytes().data();
  return Gemm(context, shape,
              operands_of(rank, from + from_row * op.k * planner::size_bytes(op.dtype), 0,
                          to + to_row * op.n * planner::size_bytes(planner::product_type(op))));
}

/// @param b_offset bytes from the start of B as it is multiplied
GemmOperands CudaPrepared::operands_of(int rank, const std::byte* a, std::int64_t b_offset, std::byte* c) const {
  const RankState& state = state_of(rank);
  const std::byte* const b = state.transposed_b ? state.transposed_b->bytes().data() : state.buffers.b.data();
  return {.a = a,
          .b = b + b_offset,
          .c = c,
          .a_scale = state.buffers.a_scales.data(),
          .b_scale = state.buffers.b_scales.data()};
}

/// cuBLASLt multiplies f8e4m3 by a B of [n, k] only.
void CudaPrepared::transpose_b(int rank) {
  RankState& state = state_of(rank);
  const planner::OpSpec& op = list_.op;
  if (op.dtype != planner::DType::F8E4m3 || state.buffers.b_is_transposed) return;
  state.transposed_b = std::make_unique<DeviceMemory>(*communicator_.device(rank).pool, state.buffers.b.size());
  enqueue_transpose(state.buffers.b.data(), state.transposed_b->bytes().data(), op.k, op.n,
                    communicator_.device(rank).compute.get());
}

/// All rows times the block's columns of B, dense in the exchange memory: the collective's message.
Gemm CudaPrepared::make_column_gemm(int rank, GemmContext& context, const Stage& stage) {
  RankState& state = state_of(rank);
  const planner::OpSpec& op = list_.op;
  const bool is_transposed = is_b_transposed(rank);
  const GemmShape shape{.dtype = op.dtype,
                        .rows = op.m,
                        .n = stage.row_count,
                        .k = op.k,
                        .b_is_transposed = is_transposed,
                        .b_pitch = op.n,
                        .sm_count = variant_.gemm_sm_count,
                        .tile = variant_.gemm_tile};
  const std::int64_t c_offset = stage.first_row * op.m * planner::size_bytes(planner::product_type(op));
  return Gemm(context, shape,
              operands_of(rank, state.buffers.a.data(),
                          stage.first_row * (is_transposed ? op.k : 1) * planner::size_bytes(op.dtype),
                          state.exchange->bytes().data() + c_offset));
}

/// The block's rows of the shards [first_shard, last_shard).
Gemm CudaPrepared::make_block_gemm(int rank, GemmContext& context, const Stage& stage, int first_shard,
                                   int last_shard) {
  const planner::OpSpec& op = list_.op;
  const bool has_shards = planner::traits_of(op.kind).has_row_shards;
  if (cuts_columns_) return make_column_gemm(rank, context, stage);
  if (!has_shards) return make_gemm(rank, context, {.rows = stage.row_count}, stage.first_row, stage.first_row);
  const std::int64_t shard_rows = op.m / op.world_size;
  const int shard_count = last_shard - first_shard;
  const std::int64_t in_place_row = first_shard * shard_rows + stage.first_row;
  const std::int64_t packed_row = stage.first_row * op.world_size + first_shard * stage.row_count;
  const std::int64_t a_row_stride = gathers_first_ ? stage.row_count : shard_rows;
  const std::int64_t c_row_stride = gathers_first_ ? shard_rows : stage.row_count;
  GemmShape shape{.rows = stage.row_count,
                  .batch_count = shard_count,
                  .a_stride = a_row_stride * op.k,
                  .c_stride = c_row_stride * op.n};
  if (stage.row_count == shard_rows) { // the shards touch on both sides: one matmul
    shape.rows *= shard_count;
    shape.batch_count = 1;
  }
  return make_gemm(rank, context, shape, gathers_first_ ? packed_row : in_place_row,
                   gathers_first_ ? in_place_row : packed_row);
}

/// The own shard's matmul is on the first stream.
bool CudaPrepared::is_on_second_stream(std::size_t stage, int slice) const noexcept {
  const auto count = static_cast<std::size_t>(transport_->slice_count());
  return uses_two_streams() && (stage * count + static_cast<std::size_t>(slice)) % 2 == 0;
}

/// The matmuls between which a slice's rows are handed over.
std::vector<Gemm> CudaPrepared::make_slice_gemms(int rank, std::size_t stage, int slice) {
  const int world_size = list_.op.world_size;
  const bool is_second = is_on_second_stream(stage, slice);
  GemmContext& context = is_second ? communicator_.second_gemm(rank) : *communicator_.device(rank).gemm;
  const Stage& block = list_.stages[stage];
  std::vector<Gemm> gemms;
  if (transport_->slice_count() > 1) {
    const RankRange shards = transport_->slice_ranks(rank, slice);
    gemms.push_back(make_block_gemm(rank, context, block, shards.first, shards.last));
  } else if (!gathers_first_) {
    gemms.push_back(make_block_gemm(rank, context, block, 0, world_size));
  } else { // the rank's own shard is the local part, and lies between the others
    if (rank > 0) gemms.push_back(make_block_gemm(rank, context, block, 0, rank));
    if (rank + 1 < world_size) gemms.push_back(make_block_gemm(rank, context, block, rank + 1, world_size));
  }
  return gemms;
}

void CudaPrepared::build_gemms(int rank) {
  RankState& state = state_of(rank);
  transpose_b(rank);
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    if (gathers_first_) {
      GemmContext& context = *communicator_.device(rank).gemm;
      state.serial_gemms.push_back(make_block_gemm(rank, context, list_.stages[i], 0, list_.op.world_size));
    }
    auto& slices = state.gemms.emplace_back();
    for (int slice = 0; slice < transport_->slice_count(); ++slice) slices.push_back(make_slice_gemms(rank, i, slice));
  }
  if (gathers_first_) build_local_gemm(rank);
}

void CudaPrepared::build_tables(int rank) {
  RankState& state = state_of(rank);
  const planner::OpSpec& op = list_.op;
  const EmbeddingBags& bags = state.buffers.bags;
  state.bag_fault = std::make_unique<MappedWord>();
  state.tables = BagTables{.rows = state.buffers.b.data(),
                           .offsets = bags.offsets.data(),
                           .indices = bags.indices.data(),
                           .index_bytes = static_cast<int>(size_bytes(bags.type)),
                           .dtype = op.dtype,
                           .is_mean = op.tables->pooling == planner::Pooling::Mean,
                           .table_count = op.tables->table_count,
                           .row_count = op.tables->row_count,
                           .columns = op.n / op.tables->table_count,
                           .sample_count = op.m,
                           .index_count = static_cast<std::int64_t>(bags.indices.size()) / size_bytes(bags.type),
                           .fault = state.bag_fault->device()};
}

/// A block's samples of the slice's shard, or of all.
PoolingRun CudaPrepared::pooling_of(int rank, std::size_t stage, int slice) const {
  const planner::OpSpec& op = list_.op;
  const Stage& block = list_.stages[stage];
  const bool is_one_shard = transport_->slice_count() > 1;
  const std::int64_t shard_rows = op.m / op.world_size;
  const int shard = is_one_shard ? transport_->slice_ranks(rank, slice).first : 0;
  const std::int64_t product_row = block.first_row * op.world_size + shard * block.row_count;
  return {.first_sample = shard * shard_rows + block.first_row,
          .row_count = block.row_count,
          .shard_count = is_one_shard ? 1 : op.world_size,
          .sample_stride = shard_rows,
          .product = state_of(rank).exchange->bytes().data() + product_row * op.n * planner::size_bytes(op.dtype)};
}

/// Throws SystemError naming the bag where a run has met an illegal one.
void CudaPrepared::require_legal_bags(int rank) const {
  const RankState& state = state_of(rank);
  if (!state.bag_fault || state.bag_fault->get() == 0) return;
  const auto legal = check_resident_bags(list_.op, rank, state.buffers);
  throw planner::SystemError(
      "bags", EINVAL,
      legal ? "rank " + std::to_string(rank) + " met a bag that was illegal while it ran" : legal.error().message);
}

void CudaPrepared::build_local_gemm(int rank) {
  RankState& state = state_of(rank);
  const planner::OpSpec& op = list_.op;
  const std::int64_t shard_rows = op.m / op.world_size;
  const GemmShape shape{.dtype = op.dtype,
                        .rows = shard_rows,
                        .n = op.n,
                        .k = op.k,
                        .b_is_transposed = is_b_transposed(rank),
                        .sm_count = variant_.gemm_sm_count,
                        .tile = variant_.gemm_tile};
  const bool holds_all_rows = op.kind == planner::OpKind::AllToAllMatmul; // of A; else the rank's own only
  const std::byte* own_a =
      state.buffers.a.data() + (holds_all_rows ? rank * shard_rows * op.k * planner::size_bytes(op.dtype) : 0);
  std::byte* own_c = state.buffers.c.data() + rank * shard_rows * op.n * planner::size_bytes(planner::product_type(op));
  state.local_gemm.emplace(*communicator_.device(rank).gemm, shape, operands_of(rank, own_a, 0, own_c));
}

/// Where tiles are summed in the matmul, the other lane alone tells of the links: it carries all blocks at once and
/// sums nothing, nor does it wait for an SM beside the matmul, which holds all.
bool CudaPrepared::carries_at_once(RunMode mode) const noexcept {
  return variant_.stores_tiles && (mode == RunMode::CommunicationOnly || mode == RunMode::Independent);
}

Stage CudaPrepared::whole() const noexcept {
  const Stage& last = list_.stages.back();
  return {.first_row = 0, .row_count = last.first_row + last.row_count};
}

BlockExchange CudaPrepared::exchange_of(std::size_t stage, RunMode mode) const {
  using planner::OpKind;
  const planner::OpSpec op = exchanged_as(list_.op);
  const Stage block = carries_at_once(mode) ? whole() : list_.stages[stage];
  const std::int64_t element_bytes = planner::size_bytes(op.dtype);
  const std::int64_t columns = gathers_first_ ? op.k : op.n;
  const std::int64_t shards = planner::traits_of(op.kind).has_row_shards ? op.world_size : 1;
  const std::int64_t unit_elements = cuts_columns_ ? op.m : columns; // of a row or column of the exchange memory
  const std::int64_t piece_offset = block.first_row * unit_elements * element_bytes;
  const std::int64_t shard_elements = op.m / op.world_size * columns;
  BlockExchange exchange{.element_count = block.row_count * unit_elements,
                         .meets_before = !gathers_first_,
                         .meets_after = block.first_row + block.row_count == whole().row_count,
                         .leaves_sum = carries_at_once(mode),
                         .copies_own = op.kind == OpKind::MatmulAllToAll || op.kind == OpKind::EmbeddingAllToAll ||
                                       (gathers_first_ && mode == RunMode::Serial)};
  // In the exchange memory a block's pieces touch, unless it holds all tiles' products; in A and C they are a shard
  // apart.
  if (op.kind == OpKind::AllToAllMatmul) exchange.send_stride = shard_elements;
  if (shards > 1 && !gathers_first_)
    exchange.send_stride = variant_.stores_tiles ? shard_elements : exchange.element_count;
  if (gathers_first_) exchange.receive_stride = exchange.element_count;
  if (op.kind == OpKind::MatmulAllToAll) exchange.receive_stride = shard_elements;
  const bool is_side_by_side = op.kind == OpKind::EmbeddingAllToAll; // senders in a row of C, not one below the other
  if (is_side_by_side) {
    exchange.receive_stride = exchange.row_elements = columns;
    exchange.receive_pitch = op.world_size * columns;
  }
  std::int64_t landing_offset = is_side_by_side ? op.world_size * piece_offset : piece_offset;
  if (cuts_columns_) {
    landing_offset = block.first_row * element_bytes;
    exchange.row_elements = block.row_count < op.n ? block.row_count : 0;
    exchange.receive_pitch = op.n;
  }
  for (std::size_t rank = 0; rank < places_.size(); ++rank) {
    const Places& places = places_[rank];
    if (places.exchange == nullptr) continue; // of another process, and not reached for
    std::byte* shared = (mode == RunMode::Independent ? places.spare : places.exchange) +
                        (variant_.stores_tiles ? 1 : shards) * piece_offset;
    exchange.send[rank] = gathers_first_ ? places.a + piece_offset : shared;
    // offsets are right where C is not reached, too
    exchange.receive[rank] = gathers_first_ ? shared : places.c + landing_offset;
    if (places.staging != nullptr) exchange.staging[rank] = places.staging + (shards - 1) * piece_offset;
  }
  return exchange;
}

std::vector<BlockExchange> CudaPrepared::exchanges(std::size_t count, RunMode mode) const {
  std::vector<BlockExchange> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(exchange_of(i, mode));
  return blocks;
}

/// What the collectives read and write, in the same order on every rank.
void CudaPrepared::register_windows(int rank) {
  RankState& state = state_of(rank);
  transport_->register_memory(rank, state.exchange->bytes());
  if (state.spare) transport_->register_memory(rank, state.spare->bytes());
  if (state.staging) transport_->register_memory(rank, state.staging->bytes());
  const std::span<const std::byte> a = state.buffers.a;
  transport_->register_memory(rank,
                              gathers_first_ ? std::span(const_cast<std::byte*>(a.data()), a.size()) : state.buffers.c);
}

/// A transport's promise, checked on its graph: that of the collectives alone holds no kernel but our meetings.
void CudaPrepared::check_takes_no_sm(int rank) {
  const cudaStream_t stream = communicator_.device(rank).communication.get();
  StreamCapture capture(stream);
  BlockExchange block = exchange_of(0, RunMode::CommunicationOnly);
  block.meets_after = false;
  transport_->enqueue(rank, block, 0, stream);
  const cudaGraph_t graph = capture.end();
  const int kernel_count = count_kernels(graph);
  log_failure(cudaGraphDestroy(graph), "cudaGraphDestroy");
  if (kernel_count == 0) return;
  throw planner::SystemError("nccl", ENOTSUP,
                             "rank " + std::to_string(rank) + ": asked for copy engines, NCCL took " +
                                 std::to_string(kernel_count) + " kernels");
}

/// Blocks that one kernel carries in such a run.
std::size_t CudaPrepared::spanned(RunMode mode, RunDetail detail) const noexcept {
  return detail == RunDetail::Stages || mode == RunMode::Serial ? 0 : span_length_;
}

} // namespace mc2::executor::cuda
