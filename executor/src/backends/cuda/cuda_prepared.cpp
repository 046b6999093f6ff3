#include "backends/cuda/cuda_prepared.hpp"

#include <algorithm>
#include <utility>

#include "mc2/planner/error.hpp"

namespace mc2::executor::cuda {
bool trace_stages = true;
namespace {

using planner::Lane;

bool runs_lane(RunMode mode, Lane lane) {
  if (mode == RunMode::ComputeOnly) return lane == Lane::Compute;
  if (mode == RunMode::CommunicationOnly) return lane == Lane::Communication;
  return true;
}

std::size_t index_of(RunMode mode) { return static_cast<std::size_t>(mode); }

/// Work that `to` gets from now on starts after what `from` has now.
void order(cudaStream_t from, cudaStream_t to, const Event& event) {
  MC2_CUDA(cudaEventRecord(event.get(), from));
  MC2_CUDA(cudaStreamWaitEvent(to, event.get(), 0));
}

/// In a captured graph: a node that takes the time, rather than an edge.
void take_time(const Event& event, cudaStream_t stream, bool always = false) {
  if (!trace_stages && !always) return;
  MC2_CUDA(cudaEventRecordWithFlags(event.get(), stream, cudaEventRecordExternal));
}

std::chrono::nanoseconds between(const Event& start, const Event& end) {
  float milliseconds = 0;
  MC2_CUDA(cudaEventElapsedTime(&milliseconds, start.get(), end.get()));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6));
}

} // namespace

CudaPrepared::CudaPrepared(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
                           std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers,
                           const PrepareOptions& options)
    : communicator_(communicator),
      list_(stages),
      variant_(variant),
      transport_(std::move(transport)),
      shapes_(operand_shapes(stages.op)),
      gathers_first_(stages.first_lane == Lane::Communication),
      ranks_(buffers.size()) {
  const std::int64_t columns = gathers_first_ ? list_.op.k : list_.op.n;
  const auto exchange_bytes = static_cast<std::size_t>(list_.op.m * columns * planner::size_bytes(list_.op.dtype));
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
    state.exchange = std::make_unique<DeviceMemory>(rank, exchange_bytes);
    if (options.allow_independent) state.spare = std::make_unique<DeviceMemory>(rank, exchange_bytes);
    for (DeviceMemory* memory : {state.exchange.get(), state.spare.get()}) {
      if (memory != nullptr) MC2_CUDA(cudaMemset(memory->bytes().data(), 0, exchange_bytes));
    }
    build(rank);
  });
  communicator_.run([this](int rank) { capture(rank, RunMode::Fused); });
}

CudaPrepared::~CudaPrepared() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    log_failure(cudaSetDevice(static_cast<int>(rank)), "cudaSetDevice");
    ranks_[rank] = {};
  }
}

void CudaPrepared::build(int rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  build_gemms(rank);
  state.begin = make_event(true);
  state.finish = make_event(true);
  state.fork = make_event(false);
  state.local = {make_event(true), make_event(true)};
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    state.ready.push_back(make_event(false));
    state.compute.push_back({make_event(true), make_event(true)});
    state.communication.push_back({make_event(true), make_event(true)});
  }
  MC2_CUDA(cudaDeviceSynchronize());
}

/// A matmul of rows of A or the exchange memory into rows of the exchange memory or C, whichever the kind has.
Gemm CudaPrepared::make_gemm(int rank, GemmShape shape, std::int64_t from_row, std::int64_t to_row) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const planner::OpSpec& op = list_.op;
  const std::int64_t element_bytes = planner::size_bytes(op.dtype);
  shape.dtype = op.dtype;
  shape.n = op.n;
  shape.k = op.k;
  shape.sm_count = variant_.gemm_sm_count;
  const std::byte* from = gathers_first_ ? state.exchange->bytes().data() : state.buffers.a.data();
  std::byte* to = gathers_first_ ? state.buffers.c.data() : state.exchange->bytes().data();
  return Gemm(*communicator_.device(rank).gemm, shape,
              {.a = from + from_row * op.k * element_bytes,
               .b = state.buffers.b.data(),
               .c = to + to_row * op.n * element_bytes});
}

void CudaPrepared::build_gemms(int rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const planner::OpSpec& op = list_.op;
  const auto& traits = planner::traits_of(op.kind);
  const std::int64_t shard_rows = traits.cut_axis_length(op);
  for (const Stage& stage : list_.stages) {
    auto& gemms = state.gemms.emplace_back();
    const std::int64_t rows = stage.row_count;
    if (!traits.has_row_shards) {
      gemms.push_back(make_gemm(rank, {.rows = rows}, stage.first_row, stage.first_row));
    } else if (!gathers_first_) { // rows of every shard, side by side in the exchange memory
      gemms.push_back(make_gemm(rank,
                                {.rows = rows,
                                 .batch_count = op.world_size,
                                 .a_stride = shard_rows * op.k,
                                 .c_stride = rows * op.n},
                                stage.first_row, stage.first_row * op.world_size));
    } else { // the shards before the rank's own, and those after it
      for (const auto& [first, last] : {std::pair{0, rank}, std::pair{rank + 1, op.world_size}}) {
        if (first == last) continue;
        gemms.push_back(make_gemm(rank,
                                  {.rows = rows,
                                   .batch_count = last - first,
                                   .a_stride = rows * op.k,
                                   .c_stride = shard_rows * op.n},
                                  stage.first_row * op.world_size + first * rows, first * shard_rows + stage.first_row));
      }
    }
  }
  if (!traits.has_local_part) return;
  const GemmShape shape{.dtype = op.dtype, .rows = shard_rows, .n = op.n, .k = op.k, .sm_count = variant_.gemm_sm_count};
  std::byte* own_rows = state.buffers.c.data() + rank * shard_rows * op.n * planner::size_bytes(op.dtype);
  state.local_gemms.emplace_back(*communicator_.device(rank).gemm, shape,
                                 GemmOperands{state.buffers.a.data(), state.buffers.b.data(), own_rows});
}

BlockExchange CudaPrepared::exchange_of(std::size_t stage, bool uses_spare) const {
  const planner::OpSpec& op = list_.op;
  const Stage& block = list_.stages[stage];
  const std::int64_t element_bytes = planner::size_bytes(op.dtype);
  const std::int64_t columns = gathers_first_ ? op.k : op.n;
  const std::int64_t shards = planner::traits_of(op.kind).has_row_shards ? op.world_size : 1;
  const std::int64_t piece_offset = block.first_row * columns * element_bytes;
  BlockExchange exchange{.element_count = block.row_count * columns,
                         .is_first = stage == 0,
                         .is_last = stage + 1 == list_.stages.size()};
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const RankState& state = ranks_[rank];
    std::byte* shared = (uses_spare ? state.spare : state.exchange)->bytes().data() + shards * piece_offset;
    exchange.send[rank] = gathers_first_ ? state.buffers.a.data() + piece_offset : shared;
    exchange.receive[rank] = gathers_first_ ? shared : state.buffers.c.data() + piece_offset;
  }
  return exchange;
}

void CudaPrepared::capture(int rank, RunMode mode) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const cudaStream_t stream = communicator_.device(rank).compute.get();
  // Relaxed: NCCL connects its ranks on first use, with calls that the stricter modes refuse.
  MC2_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  enqueue(rank, mode);
  cudaGraph_t graph = nullptr;
  MC2_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  log_failure(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(code, "cudaGraphInstantiate", rank);
  state.graphs[index_of(mode)] = GraphExec(executable);
  MC2_CUDA(cudaGraphUpload(executable, stream));
}

void CudaPrepared::enqueue(int rank, RunMode mode) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const RankDevice& device = communicator_.device(rank);
  const cudaStream_t compute = device.compute.get();
  const cudaStream_t communication = device.communication.get();
  // Ranks begin together, so that a rank's times hold no wait for a peer that was launched later.
  enqueue_meeting(communicator_.signals_of(rank), compute);
  take_time(state.begin, compute, true);
  order(compute, communication, state.fork);
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    // In the order of dependence: an event must be recorded before a stream can wait for it.
    if (gathers_first_) enqueue_communication(rank, mode, i);
    if (gathers_first_ && i == 0 && runs_lane(mode, Lane::Compute)) {
      take_time(state.local.start, compute);
      for (const Gemm& gemm : state.local_gemms) gemm.enqueue(compute);
      take_time(state.local.end, compute);
    }
    enqueue_compute(rank, mode, i);
    if (!gathers_first_) enqueue_communication(rank, mode, i);
  }
  order(communication, compute, state.fork);
  take_time(state.finish, compute, true);
}

void CudaPrepared::enqueue_compute(int rank, RunMode mode, std::size_t stage) {
  if (!runs_lane(mode, Lane::Compute)) return;
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const cudaStream_t stream = communicator_.device(rank).compute.get();
  if (gathers_first_ && mode == RunMode::Fused) MC2_CUDA(cudaStreamWaitEvent(stream, state.ready[stage].get(), 0));
  take_time(state.compute[stage].start, stream);
  for (const Gemm& gemm : state.gemms[stage]) gemm.enqueue(stream);
  take_time(state.compute[stage].end, stream);
  if (!gathers_first_ && mode == RunMode::Fused) MC2_CUDA(cudaEventRecord(state.ready[stage].get(), stream));
}

void CudaPrepared::enqueue_communication(int rank, RunMode mode, std::size_t stage) {
  if (!runs_lane(mode, Lane::Communication)) return;
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const cudaStream_t stream = communicator_.device(rank).communication.get();
  if (!gathers_first_ && mode == RunMode::Fused) MC2_CUDA(cudaStreamWaitEvent(stream, state.ready[stage].get(), 0));
  take_time(state.communication[stage].start, stream);
  transport_->enqueue(rank, exchange_of(stage, mode == RunMode::Independent), stream);
  take_time(state.communication[stage].end, stream);
  if (gathers_first_ && mode == RunMode::Fused) MC2_CUDA(cudaEventRecord(state.ready[stage].get(), stream));
}

const RunRecord& CudaPrepared::run(RunMode mode) {
  MC2_CHECK(mode != RunMode::Independent || ranks_.front().spare != nullptr,
            "RunMode::Independent needs PrepareOptions::allow_independent");
  if (!ranks_.front().graphs[index_of(mode)]) communicator_.run([&](int rank) { capture(rank, mode); });
  communicator_.run([&](int rank) {
    const RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const cudaStream_t stream = communicator_.device(rank).compute.get();
    check(cudaGraphLaunch(state.graphs[index_of(mode)].get(), stream), "cudaGraphLaunch", rank);
    communicator_.wait(rank, stream);
    read_times(rank, mode);
  });
  finish_record();
  record_.wall = {};
  for (auto& s : ranks_) record_.wall = std::max(record_.wall, between(s.begin, s.finish));
  return record_;
}

void CudaPrepared::read_times(int rank, RunMode mode) {
  const RankState& state = ranks_[static_cast<std::size_t>(rank)];
  RankTimes& times = record_.ranks[static_cast<std::size_t>(rank)];
  const auto read = [&](const StageEvents& events) {
    float ms; if (cudaEventElapsedTime(&ms, state.begin.get(), events.start.get()) != cudaSuccess) { cudaGetLastError(); return StageTime{}; }
    return StageTime{between(state.begin, events.start), between(state.begin, events.end)};
  };
  const bool computes = runs_lane(mode, Lane::Compute);
  const bool communicates = runs_lane(mode, Lane::Communication);
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    times.compute[i] = computes ? read(state.compute[i]) : StageTime{};
    times.communication[i] = communicates ? read(state.communication[i]) : StageTime{};
  }
  times.local = computes && !state.local_gemms.empty() ? read(state.local) : StageTime{};
}

/// First start to last end on the slowest device. Ranks begin together, so their clocks share a zero; launching and
/// waking are the host's and not counted.
void CudaPrepared::finish_record() {
  auto first = std::chrono::nanoseconds::max();
  auto last = std::chrono::nanoseconds::min();
  const auto count = [&](const StageTime& time) {
    if (time.end.count() == 0) return;
    first = std::min(first, time.start);
    last = std::max(last, time.end);
  };
  for (const RankTimes& rank : record_.ranks) {
    std::ranges::for_each(rank.compute, count);
    std::ranges::for_each(rank.communication, count);
    count(rank.local);
  }
  record_.makespan = last - first;
  record_.wall = record_.makespan;
}

} // namespace mc2::executor::cuda
