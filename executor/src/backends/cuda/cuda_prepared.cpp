#include "backends/cuda/cuda_prepared.hpp"

#include <algorithm>
#include <utility>

#include "backends/cuda/cuda_checks.hpp"
#include "mc2/planner/error.hpp"
#include "run_mode.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::Lane;

std::size_t index_of(RunMode mode) { return static_cast<std::size_t>(mode); }

/// Work that `to` gets from now on starts after what `from` has now.
void order(cudaStream_t from, cudaStream_t to, const Event& event) {
  MC2_CUDA(cudaEventRecord(event.get(), from));
  MC2_CUDA(cudaStreamWaitEvent(to, event.get(), 0));
}

/// In a graph that is being captured: a node that takes the time, rather than an edge.
void take_time(const Event& event, cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  MC2_CUDA(cudaStreamIsCapturing(stream, &status));
  const bool is_captured = status == cudaStreamCaptureStatusActive;
  MC2_CUDA(cudaEventRecordWithFlags(event.get(), stream, is_captured ? cudaEventRecordExternal : cudaEventRecordDefault));
}

} // namespace

CudaPrepared::CudaPrepared(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
                           std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers,
                           const PrepareOptions& options)
    : communicator_(communicator),
      list_(stages),
      variant_(variant),
      transport_(std::move(transport)),
      gathers_first_(stages.first_lane == Lane::Communication),
      ranks_(buffers.size()) {
  const auto byte_count = static_cast<std::size_t>(exchange_bytes(list_.op));
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    record_.ranks.push_back({.rank = static_cast<int>(rank),
                             .compute = std::vector<StageTime>(list_.stages.size()),
                             .communication = std::vector<StageTime>(list_.stages.size()),
                             .local = {}});
    ranks_[rank].buffers = buffers[rank];
  }
  // Every rank's exchange memory exists before any rank captures a pointer to it.
  communicator_.run([&](int rank) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    state.exchange = make_exchange(rank, byte_count);
    if (options.allow_independent) state.spare = make_exchange(rank, byte_count);
    if (transport_->stages_pieces())
      state.staging = make_exchange(rank, static_cast<std::size_t>(staging_bytes(list_.op)));
    build(rank);
  });
  span_length_ = transport_->span_length(exchanges(list_.stages.size(), RunMode::Fused));
  communicator_.run([this](int rank) { capture(rank, RunMode::Fused); });
}

CudaPrepared::~CudaPrepared() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    log_failure(cudaSetDevice(static_cast<int>(rank)), "cudaSetDevice");
    ranks_[rank].graphs = {}; // before the memory that they use
  }
}

/// Zeros, so that a run of one lane alone works on finite numbers.
std::unique_ptr<DeviceMemory> CudaPrepared::make_exchange(int rank, std::size_t byte_count) {
  auto memory = std::make_unique<DeviceMemory>(*communicator_.device(rank).pool, rank, byte_count);
  MC2_CUDA(cudaMemset(memory->bytes().data(), 0, byte_count));
  return memory;
}

void CudaPrepared::build(int rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  build_gemms(rank);
  state.begin = make_event(true);
  state.compute_end = make_event(true);
  state.communication_end = make_event(true);
  state.finish = make_event(true);
  state.fork = make_event(false);
  state.entry = make_event(false);
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
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const planner::OpSpec& op = list_.op;
  const std::int64_t element_bytes = planner::size_bytes(op.dtype);
  shape.dtype = op.dtype;
  shape.n = op.n;
  shape.k = op.k;
  shape.sm_count = variant_.gemm_sm_count;
  const std::byte* from = gathers_first_ ? state.exchange->bytes().data() : state.buffers.a.data();
  std::byte* to = gathers_first_ ? state.buffers.c.data() : state.exchange->bytes().data();
  return Gemm(context, shape,
              {.a = from + from_row * op.k * element_bytes,
               .b = state.buffers.b.data(),
               .c = to + to_row * op.n * element_bytes});
}

/// The block's rows of the shards [first_shard, last_shard).
Gemm CudaPrepared::make_block_gemm(int rank, GemmContext& context, const Stage& stage, int first_shard,
                                   int last_shard) {
  const planner::OpSpec& op = list_.op;
  const bool has_shards = planner::traits_of(op.kind).has_row_shards;
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
  return make_gemm(rank, context, shape, gathers_first_ ? packed_row : in_place_row, gathers_first_ ? in_place_row : packed_row);
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
    const int shard = (rank + 1 + slice) % world_size;
    gemms.push_back(make_block_gemm(rank, context, block, shard, shard + 1));
  } else if (!gathers_first_) {
    gemms.push_back(make_block_gemm(rank, context, block, 0, world_size));
  } else { // the rank's own shard is the local part, and lies between the others
    if (rank > 0) gemms.push_back(make_block_gemm(rank, context, block, 0, rank));
    if (rank + 1 < world_size) gemms.push_back(make_block_gemm(rank, context, block, rank + 1, world_size));
  }
  return gemms;
}

void CudaPrepared::build_gemms(int rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
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

void CudaPrepared::build_local_gemm(int rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const planner::OpSpec& op = list_.op;
  const std::int64_t shard_rows = op.m / op.world_size;
  const std::int64_t element_bytes = planner::size_bytes(op.dtype);
  const GemmShape shape{.dtype = op.dtype, .rows = shard_rows, .n = op.n, .k = op.k, .sm_count = variant_.gemm_sm_count};
  const bool holds_all_rows = op.kind == planner::OpKind::AllToAllMatmul; // of A; else the rank's own only
  const std::byte* own_a = state.buffers.a.data() + (holds_all_rows ? rank * shard_rows * op.k * element_bytes : 0);
  std::byte* own_c = state.buffers.c.data() + rank * shard_rows * op.n * element_bytes;
  state.local_gemm.emplace(*communicator_.device(rank).gemm, shape, GemmOperands{own_a, state.buffers.b.data(), own_c});
}

BlockExchange CudaPrepared::exchange_of(std::size_t stage, RunMode mode) const {
  using planner::OpKind;
  const planner::OpSpec& op = list_.op;
  const Stage& block = list_.stages[stage];
  const std::int64_t element_bytes = planner::size_bytes(op.dtype);
  const std::int64_t columns = gathers_first_ ? op.k : op.n;
  const std::int64_t shards = planner::traits_of(op.kind).has_row_shards ? op.world_size : 1;
  const std::int64_t piece_offset = block.first_row * columns * element_bytes;
  const std::int64_t shard_elements = op.m / op.world_size * columns;
  BlockExchange exchange{.element_count = block.row_count * columns,
                         .meets_before = !gathers_first_,
                         .meets_after = stage + 1 == list_.stages.size(),
                         .copies_own = op.kind == OpKind::MatmulAllToAll || mode == RunMode::Serial};
  // In the exchange memory a block's pieces touch; in A and C they are a shard apart.
  if (op.kind == OpKind::AllToAllMatmul) exchange.send_stride = shard_elements;
  if (shards > 1 && !gathers_first_) exchange.send_stride = exchange.element_count;
  if (gathers_first_) exchange.receive_stride = exchange.element_count;
  if (op.kind == OpKind::MatmulAllToAll) exchange.receive_stride = shard_elements;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RankState& state = ranks_[rank];
    std::byte* shared = (mode == RunMode::Independent ? state.spare : state.exchange)->bytes().data() + shards * piece_offset;
    exchange.send[rank] = gathers_first_ ? state.buffers.a.data() + piece_offset : shared;
    exchange.receive[rank] = gathers_first_ ? shared : state.buffers.c.data() + piece_offset;
    if (state.staging) exchange.staging[rank] = state.staging->bytes().data() + (shards - 1) * piece_offset;
  }
  return exchange;
}

std::vector<BlockExchange> CudaPrepared::exchanges(std::size_t count, RunMode mode) const {
  std::vector<BlockExchange> blocks;
  for (std::size_t i = 0; i < count; ++i) blocks.push_back(exchange_of(i, mode));
  return blocks;
}

/// Blocks that one kernel carries in such a run.
std::size_t CudaPrepared::spanned(RunMode mode, RunDetail detail) const noexcept {
  return detail == RunDetail::Stages || mode == RunMode::Serial ? 0 : span_length_;
}

void CudaPrepared::capture(int rank, RunMode mode) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const cudaStream_t stream = communicator_.device(rank).compute.get();
  // Relaxed: NCCL connects its ranks on first use, with calls that the stricter modes refuse.
  MC2_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  enqueue(rank, mode, RunDetail::Makespan);
  cudaGraph_t graph = nullptr;
  MC2_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  log_failure(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(code, "cudaGraphInstantiate", rank);
  state.graphs[index_of(mode)] = GraphExec(executable);
  MC2_CUDA(cudaGraphUpload(executable, stream));
}

void CudaPrepared::enqueue(int rank, RunMode mode, RunDetail detail) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const RankDevice& device = communicator_.device(rank);
  const cudaStream_t compute = device.compute.get();
  const cudaStream_t communication = device.communication.get();
  const Job job{rank, mode, detail};
  // Ranks begin together, so that a rank's times hold no wait for a peer that was launched later.
  enqueue_meeting(communicator_.signals_of(rank), compute);
  take_time(state.begin, compute);
  order(compute, communication, state.fork);
  if (uses_two_streams()) order(compute, device.second_compute.get(), state.fork);
  enqueue_span(job);
  if (mode == RunMode::Serial) {
    enqueue_serial(job);
  } else {
    for (std::size_t i = 0; i < list_.stages.size(); ++i) {
      for (int slice = 0; slice < transport_->slice_count(); ++slice) {
        // In the order of dependence: an event must be recorded before a stream can wait for it.
        if (gathers_first_) enqueue_communication(job, i, slice);
        if (i == 0 && slice == 0) enqueue_local(job);
        enqueue_compute(job, i, slice);
        if (!gathers_first_) enqueue_communication(job, i, slice);
      }
    }
  }
  if (uses_two_streams()) order(device.second_compute.get(), compute, state.fork);
  if (spanned(mode, detail) > 0 && mode == RunMode::Fused) order(device.announcements.get(), communication, state.fork);
  take_time(state.compute_end, compute);
  take_time(state.communication_end, communication);
  order(communication, compute, state.fork);
  take_time(state.finish, compute);
}

void CudaPrepared::enqueue_span(const Job& job) {
  const std::size_t count = spanned(job.mode, job.detail);
  if (count == 0 || !runs_lane(job.mode, Lane::Communication)) return;
  RankState& state = ranks_[static_cast<std::size_t>(job.rank)];
  const cudaStream_t stream = communicator_.device(job.rank).communication.get();
  transport_->enqueue_span(job.rank, exchanges(count, job.mode), job.mode == RunMode::Fused, stream);
  if (is_stamped(Lane::Communication, job.mode, count - 1)) take_time(state.communication[count - 1].end, stream);
}

void CudaPrepared::enqueue_serial(const Job& job) {
  RankState& state = ranks_[static_cast<std::size_t>(job.rank)];
  const RankDevice& device = communicator_.device(job.rank);
  const cudaStream_t compute = device.compute.get();
  const auto communicate = [&] {
    for (std::size_t i = 0; i < list_.stages.size(); ++i) {
      for (int slice = 0; slice < transport_->slice_count(); ++slice) enqueue_communication(job, i, slice);
    }
  };
  if (gathers_first_) {
    communicate();
    order(device.communication.get(), compute, state.fork);
  }
  const bool is_timed = job.detail == RunDetail::Stages;
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    if (is_timed) take_time(state.compute[i].start, compute);
    if (gathers_first_) {
      state.serial_gemms[i].enqueue(compute);
    } else {
      for (const auto& slice : state.gemms[i]) slice.front().enqueue(compute);
    }
    if (is_timed) take_time(state.compute[i].end, compute);
  }
  if (gathers_first_) return;
  order(compute, device.communication.get(), state.fork);
  communicate();
}

void CudaPrepared::enqueue_local(const Job& job) {
  RankState& state = ranks_[static_cast<std::size_t>(job.rank)];
  if (!state.local_gemm || !runs_lane(job.mode, Lane::Compute)) return;
  const cudaStream_t stream = communicator_.device(job.rank).compute.get();
  const bool is_timed = job.detail == RunDetail::Stages;
  if (job.mode == RunMode::Fused && !list_.is_local_first)
    MC2_CUDA(cudaStreamWaitEvent(stream, state.ready.front().front().get(), 0));
  if (is_timed) take_time(state.local.start, stream);
  state.local_gemm->enqueue(stream);
  if (is_timed || stamps_lengths(job.mode)) take_time(state.local.end, stream);
}

void CudaPrepared::enqueue_compute(const Job& job, std::size_t stage, int slice) {
  if (!runs_lane(job.mode, Lane::Compute)) return;
  RankState& state = ranks_[static_cast<std::size_t>(job.rank)];
  const RankDevice& device = communicator_.device(job.rank);
  const cudaStream_t stream = (is_on_second_stream(stage, slice) ? device.second_compute : device.compute).get();
  const auto index = static_cast<std::size_t>(slice);
  const bool is_timed = job.detail == RunDetail::Stages;
  const bool ends = slice + 1 == transport_->slice_count();
  const bool is_last_stamped = is_stamped(Lane::Compute, job.mode, stage);
  const bool waits = gathers_first_ && job.mode == RunMode::Fused;
  const bool signals = !gathers_first_ && job.mode == RunMode::Fused;
  if (waits) MC2_CUDA(cudaStreamWaitEvent(stream, state.ready[stage][index].get(), 0));
  if (is_timed && slice == 0) take_time(state.compute[stage].start, stream);
  for (const Gemm& gemm : state.gemms[stage][index]) gemm.enqueue(stream);
  if (ends && (is_timed || is_last_stamped)) take_time(state.compute[stage].end, stream);
  if (!signals) return;
  MC2_CUDA(cudaEventRecord(state.ready[stage][index].get(), stream));
  if (stage >= spanned(job.mode, job.detail)) return;
  MC2_CUDA(cudaStreamWaitEvent(device.announcements.get(), state.ready[stage][index].get(), 0));
  transport_->announce(job.rank, device.announcements.get());
}

void CudaPrepared::enqueue_communication(const Job& job, std::size_t stage, int slice) {
  if (!runs_lane(job.mode, Lane::Communication) || stage < spanned(job.mode, job.detail)) return;
  RankState& state = ranks_[static_cast<std::size_t>(job.rank)];
  const cudaStream_t stream = communicator_.device(job.rank).communication.get();
  const auto index = static_cast<std::size_t>(slice);
  const bool is_timed = job.detail == RunDetail::Stages;
  const bool ends = slice + 1 == transport_->slice_count();
  const bool is_last_stamped = is_stamped(Lane::Communication, job.mode, stage);
  const bool waits = !gathers_first_ && job.mode == RunMode::Fused;
  const bool signals = gathers_first_ && job.mode == RunMode::Fused;
  if (waits) MC2_CUDA(cudaStreamWaitEvent(stream, state.ready[stage][index].get(), 0));
  if (is_timed && slice == 0) take_time(state.communication[stage].start, stream);
  transport_->enqueue(job.rank, exchange_of(stage, job.mode), slice, stream);
  if (ends && (is_timed || is_last_stamped)) take_time(state.communication[stage].end, stream);
  if (signals) MC2_CUDA(cudaEventRecord(state.ready[stage][index].get(), stream));
}

const RunRecord& CudaPrepared::run(RunMode mode, RunDetail detail) {
  MC2_CHECK(mode != RunMode::Independent || ranks_.front().spare != nullptr,
            "RunMode::Independent needs PrepareOptions::allow_independent");
  const bool launches_stages =
      detail == RunDetail::Stages && (mode == RunMode::Fused || mode == RunMode::Serial);
  const bool is_captured = static_cast<bool>(ranks_.front().graphs[index_of(mode)]);
  if (!launches_stages && !is_captured) communicator_.run([&](int rank) { capture(rank, mode); });
  communicator_.run([&](int rank) {
    const RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const cudaStream_t stream = communicator_.device(rank).compute.get();
    if (launches_stages) {
      enqueue(rank, mode, detail);
    } else {
      check(cudaGraphLaunch(state.graphs[index_of(mode)].get(), stream), "cudaGraphLaunch", rank);
    }
    communicator_.wait(rank, stream);
    read_times(rank, mode, launches_stages);
  });
  finish_record(launches_stages);
  return record_;
}

planner::Result<void> CudaPrepared::enqueue(std::span<void* const> streams, Submission submission) {
  if (auto legal = check_streams(streams, ranks_.size()); !legal) return legal.error();
  communicator_.run([&](int rank) {
    enqueue_behind(rank, static_cast<cudaStream_t>(streams[static_cast<std::size_t>(rank)]), submission);
  });
  return {};
}

void CudaPrepared::enqueue_behind(int rank, cudaStream_t stream, Submission submission) {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  if (submission == Submission::Graph)
    return check(cudaGraphLaunch(state.graphs[index_of(RunMode::Fused)].get(), stream), "cudaGraphLaunch", rank);
  const cudaStream_t compute = communicator_.device(rank).compute.get();
  order(stream, compute, state.entry);
  enqueue(rank, RunMode::Fused, RunDetail::Makespan);
  order(compute, stream, state.entry);
}

} // namespace mc2::executor::cuda
