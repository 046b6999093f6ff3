#include <cerrno>
#include <optional>
#include <string>

#include "backends/cuda/cuda_checks.hpp"
#include "backends/cuda/cuda_prepared.hpp"
#include "mc2/planner/error.hpp"
#include "named_range.hpp"
#include "run_mode.hpp"
#include "run_turn.hpp"

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
  MC2_CUDA(cudaEventRecordWithFlags(event.get(), stream,
                                    is_capturing(stream) ? cudaEventRecordExternal : cudaEventRecordDefault));
}

} // namespace

void CudaPrepared::capture(int rank, RunMode mode) {
  state_of(rank).graphs[index_of(mode)] = captured({rank, mode, RunDetail::Makespan});
}

void CudaPrepared::capture_enqueued(int rank) { state_of(rank).enqueued_graph = captured(enqueued_job(rank)); }

GraphExec CudaPrepared::captured(const Job& job) {
  const int rank = job.rank;
  const cudaStream_t stream = communicator_.device(rank).compute.get();
  StreamCapture capture(stream);
  enqueue(job);
  const cudaGraph_t graph = capture.end();
  cudaGraphExec_t executable = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&executable, graph, 0);
  log_failure(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(code, "cudaGraphInstantiate", rank);
  GraphExec owned(executable);
  MC2_CUDA(cudaGraphUpload(executable, stream));
  return owned;
}

/// Null for matrices that have not come often enough to be worth a capture. NCCL wants all ranks to replay one capture
/// or none, and what the others' matrices are is not known here: its plans are launched one by one once they have other
/// matrices.
cudaGraphExec_t CudaPrepared::graph_for_bound_matrices(int rank) {
  constexpr int kUsesBeforeCapture = 2;
  constexpr std::size_t kMostMatrices = 256; // of a program that never comes round: it stays without graphs
  RankState& state = state_of(rank);
  if (!has_stale_graphs_) return state.enqueued_graph.get();
  if (!transport_->reaches_peers()) return nullptr;
  const MatrixAddresses addresses = addresses_of(state.buffers);
  if (state.moved_graphs.size() >= kMostMatrices && !state.moved_graphs.contains(addresses)) return nullptr;
  MovedGraph& moved = state.moved_graphs[addresses];
  if (!moved.graph && ++moved.use_count > kUsesBeforeCapture) moved.graph = captured(enqueued_job(rank));
  return moved.graph.get();
}

void CudaPrepared::enqueue(const Job& job) {
  const RankState& state = state_of(job.rank);
  const cudaStream_t compute = communicator_.device(job.rank).compute.get();
  // Ranks begin together, so that a rank's times hold no wait for a peer that was launched later.
  enqueue_meeting(communicator_.signals_of(job.rank), compute);
  if (job.is_timed) take_time(state.begin, compute);
  if (state.tiles && job.mode == RunMode::Fused)
    enqueue_tiles(job);
  else
    enqueue_streams(job);
  if (job.is_timed) take_time(state.finish, compute);
}

/// What takes more than one stream.
void CudaPrepared::enqueue_streams(const Job& job) {
  RankState& state = state_of(job.rank);
  const RankDevice& device = communicator_.device(job.rank);
  const cudaStream_t compute = device.compute.get();
  const cudaStream_t communication = device.communication.get();
  order(compute, communication, state.fork);
  if (uses_two_streams()) order(compute, device.second_compute.get(), state.fork);
  if (is_serial(job.mode))
    enqueue_serial(job);
  else
    enqueue_lanes(job);
  enqueue_gathered_a(job);
  if (uses_two_streams()) order(device.second_compute.get(), compute, state.fork);
  if (spanned(job.mode, job.detail) > 0 && job.mode == RunMode::Fused)
    order(device.announcements.get(), communication, state.fork);
  if (times_lanes(job.mode)) {
    take_time(state.compute_end, compute);
    take_time(state.communication_end, communication);
  }
  order(communication, compute, state.fork);
}

void CudaPrepared::enqueue_lanes(const Job& job) {
  enqueue_span(job);
  if (variant_.stores_tiles && runs_lane(job.mode, Lane::Compute)) enqueue_products(job);
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

/// Blocks of one kernel leave no times of their own: each has the whole run's, in both lanes.
void CudaPrepared::enqueue_tiles(const Job& job) {
  const NamedRange range("mc2 tiles", job.rank);
  take_kernel_times(job, &StageEvents::start);
  state_of(job.rank).tiles->enqueue(communicator_.device(job.rank).compute.get());
  take_kernel_times(job, &StageEvents::end);
}

void CudaPrepared::enqueue_products(const Job& job) {
  const NamedRange range("mc2 products", job.rank);
  take_kernel_times(job, &StageEvents::start);
  state_of(job.rank).tiles->enqueue_products(communicator_.device(job.rank).compute.get());
  take_kernel_times(job, &StageEvents::end);
}

void CudaPrepared::take_kernel_times(const Job& job, Event StageEvents::*event) {
  if (job.detail != RunDetail::Stages) return;
  RankState& state = state_of(job.rank);
  const cudaStream_t compute = communicator_.device(job.rank).compute.get();
  for (const StageEvents& block : state.compute) take_time(block.*event, compute);
  if (job.mode != RunMode::Fused) return;
  for (const StageEvents& block : state.communication) take_time(block.*event, compute);
}

void CudaPrepared::enqueue_span(const Job& job) {
  const std::size_t count = spanned(job.mode, job.detail);
  if (count == 0 || !runs_lane(job.mode, Lane::Communication)) return;
  RankState& state = state_of(job.rank);
  const cudaStream_t stream = communicator_.device(job.rank).communication.get();
  transport_->enqueue_span(job.rank, exchanges(count, job.mode), job.mode == RunMode::Fused, stream);
  if (is_stamped(Lane::Communication, job.mode, count - 1)) take_time(state.communication[count - 1].end, stream);
}

void CudaPrepared::enqueue_serial(const Job& job) {
  RankState& state = state_of(job.rank);
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
  if (variant_.stores_tiles) enqueue_products(job);
  for (std::size_t i = 0; i < list_.stages.size() && !variant_.stores_tiles; ++i) {
    if (is_timed) take_time(state.compute[i].start, compute);
    if (gathers_first_) {
      state.serial_gemms[i].enqueue(compute);
    } else {
      for (int slice = 0; slice < transport_->slice_count(); ++slice) enqueue_work(job.rank, i, slice, compute);
    }
    if (is_timed) take_time(state.compute[i].end, compute);
  }
  if (gathers_first_) return;
  order(compute, device.communication.get(), state.fork);
  communicate();
}

void CudaPrepared::enqueue_local(const Job& job) {
  RankState& state = state_of(job.rank);
  if (!state.local_gemm || !runs_lane(job.mode, Lane::Compute)) return;
  const NamedRange range("mc2 compute own rows", job.rank);
  const cudaStream_t stream = communicator_.device(job.rank).compute.get();
  const bool is_timed = job.detail == RunDetail::Stages;
  if (job.mode == RunMode::Fused && list_.schedule != planner::Schedule::LocalFirst)
    MC2_CUDA(cudaStreamWaitEvent(stream, state.ready.front().front().get(), 0));
  if (is_timed) take_time(state.local.start, stream);
  state.local_gemm->enqueue(stream);
  if (is_timed || stamps_local(job.mode)) take_time(state.local.end, stream);
}

void CudaPrepared::enqueue_compute(const Job& job, std::size_t stage, int slice) {
  if (!runs_lane(job.mode, Lane::Compute) || variant_.stores_tiles) return;
  const NamedRange range(block_range_name(Lane::Compute), static_cast<std::int64_t>(stage));
  RankState& state = state_of(job.rank);
  const RankDevice& device = communicator_.device(job.rank);
  const auto index = static_cast<std::size_t>(slice);
  const bool is_timed = job.detail == RunDetail::Stages; // one after the other, as the lane's stages are told
  const cudaStream_t stream =
      (is_on_second_stream(stage, slice) && !is_timed ? device.second_compute : device.compute).get();
  const bool ends = slice + 1 == transport_->slice_count();
  const bool is_last_stamped = is_stamped(Lane::Compute, job.mode, stage);
  const bool waits = gathers_first_ && job.mode == RunMode::Fused;
  const bool signals = !gathers_first_ && job.mode == RunMode::Fused;
  if (waits) MC2_CUDA(cudaStreamWaitEvent(stream, state.ready[stage][index].get(), 0));
  if (is_timed && slice == 0) take_time(state.compute[stage].start, stream);
  enqueue_work(job.rank, stage, slice, stream);
  if (ends && (is_timed || is_last_stamped)) take_time(state.compute[stage].end, stream);
  if (!signals) return;
  MC2_CUDA(cudaEventRecord(state.ready[stage][index].get(), stream));
  if (stage >= spanned(job.mode, job.detail)) return;
  MC2_CUDA(cudaStreamWaitEvent(device.announcements.get(), state.ready[stage][index].get(), 0));
  transport_->announce(job.rank, device.announcements.get());
}

/// What the compute lane does of a slice.
void CudaPrepared::enqueue_work(int rank, std::size_t stage, int slice, cudaStream_t stream) const {
  const RankState& state = state_of(rank);
  if (list_.op.tables)
    return enqueue_pooling(state.tables, pooling_of(rank, stage, slice), variant_.gemm_sm_count, stream);
  for (const Gemm& gemm : state.gemms[stage][static_cast<std::size_t>(slice)]) gemm.enqueue(stream);
}

void CudaPrepared::enqueue_communication(const Job& job, std::size_t stage, int slice) {
  if (!runs_lane(job.mode, Lane::Communication) || stage < spanned(job.mode, job.detail)) return;
  if (carries_at_once(job.mode) && stage > 0) return;
  const NamedRange range(block_range_name(Lane::Communication), static_cast<std::int64_t>(stage));
  RankState& state = state_of(job.rank);
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

/// Behind all exchanges, beside the last matmuls: the rows lie block after block, and in a block shard after shard.
void CudaPrepared::enqueue_gathered_a(const Job& job) {
  const RankBuffers& buffers = state_of(job.rank).buffers;
  if (buffers.gathered_a.empty() || !runs_lane(job.mode, Lane::Communication)) return;
  const planner::OpSpec& op = list_.op;
  const auto row_bytes = static_cast<std::size_t>(op.k * planner::size_bytes(op.dtype));
  const std::size_t shard_bytes = buffers.a.size();
  const cudaStream_t stream = communicator_.device(job.rank).communication.get();
  const std::byte* from = state_of(job.rank).exchange->bytes().data();
  for (const Stage& stage : list_.stages) {
    const std::size_t piece_bytes = static_cast<std::size_t>(stage.row_count) * row_bytes;
    std::byte* to = buffers.gathered_a.data() + static_cast<std::size_t>(stage.first_row) * row_bytes;
    for (int shard = 0; shard < op.world_size; ++shard, from += piece_bytes, to += shard_bytes)
      // no pitch: it may be above 2^31
      MC2_CUDA(cudaMemcpyAsync(to, from, piece_bytes, cudaMemcpyDeviceToDevice, stream));
  }
  MC2_CUDA(cudaMemcpyAsync(buffers.gathered_a.data() + static_cast<std::size_t>(job.rank) * shard_bytes,
                           buffers.a.data(), shard_bytes, cudaMemcpyDeviceToDevice, stream));
}

/// What is under way on the callers' streams still uses them.
void CudaPrepared::forget_graphs() {
  communicator_.run([&](int rank) {
    communicator_.wait(rank, state_of(rank).last_use);
    communicator_.wait(rank, communicator_.device(rank).compute.get());
    state_of(rank).graphs = {};
    capture_enqueued(rank);
  });
  has_stale_graphs_ = false;
}

const RunRecord& CudaPrepared::run(RunMode asked, RunDetail detail) {
  const RunMode mode = mode_of(list_, asked);
  MC2_CHECK(mode != RunMode::Independent || ranks_.front().spare != nullptr,
            "RunMode::Independent needs PrepareOptions::allow_independent");
  const RunTurn turn(communicator_.turn());
  for (const int rank : communicator_.local_ranks())
    if (communicator_.is_in_capture(rank)) throw planner::SystemError("run", EBUSY, kInCapture);
  const bool launches_stages = detail == RunDetail::Stages && (mode == RunMode::Fused || mode == RunMode::Serial);
  if (has_stale_graphs_) forget_graphs();
  const bool is_captured = static_cast<bool>(ranks_.front().graphs[index_of(mode)]);
  if (!launches_stages && !is_captured) communicator_.run([&](int rank) { capture(rank, mode); });
  communicator_.run([&](int rank) {
    const RankState& state = state_of(rank);
    const cudaStream_t stream = communicator_.device(rank).compute.get();
    // What was enqueued uses the same memory, and of other plans the same signals.
    for (const cudaEvent_t use : {state.last_use.get(), communicator_.device(rank).last_use})
      if (use != nullptr) MC2_CUDA(cudaStreamWaitEvent(stream, use, 0));
    if (launches_stages) {
      enqueue({rank, mode, detail});
    } else {
      check(cudaGraphLaunch(state.graphs[index_of(mode)].get(), stream), "cudaGraphLaunch", rank);
    }
    communicator_.wait(rank, stream);
    require_legal_bags(rank);
    read_times(rank, mode, launches_stages);
  });
  finish_record(launches_stages);
  return record_;
}

planner::Result<void> CudaPrepared::enqueue(std::span<void* const> streams, Submission submission) {
  if (auto legal = check_streams(streams, communicator_.local_ranks()); !legal) return legal.error();
  const RunTurn turn(communicator_.turn());
  std::optional<int> captured_rank, free_rank;
  for (const int rank : communicator_.local_ranks()) {
    const OnDevice on_device(rank);
    const cudaStreamCaptureStatus status =
        capture_status(static_cast<cudaStream_t>(streams[communicator_.local_index(rank)]));
    if (status == cudaStreamCaptureStatusInvalidated)
      return planner::Error{planner::ErrorCode::InvalidSpec, "streams",
                            "the capture of rank " + std::to_string(rank) + "'s has failed; end it first"};
    const bool is_captured = status == cudaStreamCaptureStatusActive;
    // A stream that is captured does not tell its device, but takes no event of another.
    if (is_captured &&
        cudaEventRecord(state_of(rank).entry.get(),
                        static_cast<cudaStream_t>(streams[communicator_.local_index(rank)])) != cudaSuccess) {
      (void)cudaGetLastError(); // clears it
      return planner::Error{planner::ErrorCode::InvalidSpec, "streams",
                            "rank " + std::to_string(rank) + "'s is being captured and is not of device " +
                                std::to_string(rank) + ", as it must be"};
    }
    (is_captured ? captured_rank : free_rank) = rank;
    if (!is_captured && communicator_.is_in_capture(rank))
      return planner::Error{planner::ErrorCode::InvalidSpec, "streams", kInCapture};
  }
  if (captured_rank && free_rank)
    return planner::Error{planner::ErrorCode::InvalidSpec, "streams",
                          "rank " + std::to_string(*captured_rank) + "'s is being captured and rank " +
                              std::to_string(*free_rank) + "'s is not; capture all of them, or none"};
  communicator_.run([&](int rank) {
    require_legal_bags(rank); // of the runs before, which nobody has waited for here
    enqueue_behind(rank, static_cast<cudaStream_t>(streams[communicator_.local_index(rank)]), submission);
  });
  return {};
}

void CudaPrepared::enqueue_behind(int rank, cudaStream_t stream, Submission submission) {
  const RankState& state = state_of(rank);
  const bool is_callers_graph = is_capturing(stream);
  const bool may_launch = submission == Submission::Graph && !is_callers_graph;
  if (const cudaGraphExec_t graph = may_launch ? graph_for_bound_matrices(rank) : nullptr; graph != nullptr) {
    check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch", rank);
  } else {
    const cudaStream_t compute = communicator_.device(rank).compute.get();
    order(stream, compute, state.entry);
    enqueue(enqueued_job(rank));
    order(compute, stream, state.entry);
  }
  if (is_callers_graph) return;
  MC2_CUDA(cudaEventRecord(state.last_use.get(), stream));
  communicator_.device(rank).last_use = state.last_use.get();
}

} // namespace mc2::executor::cuda
