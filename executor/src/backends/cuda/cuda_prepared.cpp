#include "backends/cuda/cuda_prepared.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "backends/cuda/cuda_checks.hpp"
#include "backends/cuda/lane_streams.hpp"
#include "backends/cuda/lane_times.hpp"
#include "backends/cuda/plan_graphs.hpp"
#include "backends/cuda/rank_matmuls.hpp"
#include "checks.hpp"
#include "mc2/executor/failure_log.hpp"
#include "mc2/planner/error.hpp"
#include "run_turn.hpp"
#include "texts.hpp"

namespace mc2::executor::cuda {
namespace {

std::size_t index_of(RunMode mode) { return static_cast<std::size_t>(mode); }

/// Whether a caller is capturing the stream. If so, the stream must be of the rank's device.
/// @param entry  an event of the rank
/// Errors: InvalidSpec.
Result<bool> is_in_legal_capture(LocalRank rank, cudaStream_t stream, const Event& entry) {
  const OnDevice on_device(rank.device);
  const cudaStreamCaptureStatus status = capture_status(stream);
  if (status == cudaStreamCaptureStatusInvalidated)
    return Error{ErrorCode::InvalidSpec, "streams",
                 "the capture of " + rank_text(rank.number) + "'s has failed; end it first"};
  if (status != cudaStreamCaptureStatusActive) return false;
  // A captured stream does not tell its device, but refuses events of another device.
  if (cudaEventRecord(entry.get(), stream) == cudaSuccess) return true;
  (void)cudaGetLastError(); // clears it
  return Error{ErrorCode::InvalidSpec, "streams",
               rank_text(rank.number) + "'s is being captured and is not of device " + std::to_string(rank.device) +
                   ", as it must be"};
}

} // namespace

CudaPrepared::CudaPrepared(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
                           std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers,
                           std::optional<RowRuns> row_runs)
    : communicator_(communicator),
      plan_(communicator, stages, variant, std::move(transport), buffers, std::move(row_runs)) {
  for (int rank = 0; rank < communicator.world_size(); ++rank) {
    record_.ranks.push_back({.rank = rank,
                             .compute = std::vector<StageTime>(stages.stages.size()),
                             .communication = std::vector<StageTime>(stages.stages.size()),
                             .local = {}});
  }
}

Result<void> CudaPrepared::make_ready(const PrepareOptions& options) {
  const auto make = [&](int rank) {
    make_memory(rank, options);
    build(rank);
  };
  MC2_TRY(communicator_.attempt(make));
  // All ranks' exchange memory must exist before any rank captures a pointer to it.
  if (plan_.transport->has_windows()) communicator_.run([this](int rank) { register_windows(rank); });
  share_places();
  plan_.span_length = shortest_span();
  const auto capture_graphs = [this](int rank) {
    if (plan_.transport->takes_no_sm()) check_takes_no_sm(plan_, rank);
    if (plan_.variant.stores_tiles) build_tiles(plan_, rank);
    if (plan_.reads_device_counts) connect_routing(plan_, rank);
    if (plan_.span_length > 0) communicator_.open_announcements(rank);
    capture(rank, RunMode::Fused);
    capture_enqueued(rank);
  };
  if (plan_.transport->uses_nccl()) {
    communicator_.run_while_connecting(capture_graphs);
  } else {
    MC2_TRY(communicator_.attempt(capture_graphs));
  }
  is_ready_ = true;
  return {};
}

void CudaPrepared::make_memory(int rank, const PrepareOptions& options) {
  RankState& state = plan_.state_of(rank);
  const auto byte_count = static_cast<std::size_t>(exchange_bytes(plan_.list.op));
  state.exchange = make_exchange(rank, byte_count);
  if (options.allow_independent) state.spare = make_exchange(rank, byte_count);
  if (stages_pieces(plan_.list.op, plan_.variant))
    state.staging = make_exchange(rank, static_cast<std::size_t>(staging_bytes(plan_.list.op)));
  if (plan_.variant.stores_tiles)
    state.tile_memory =
        make_exchange(rank, static_cast<std::size_t>(tile_memory_bytes(plan_.list, plan_.variant.tile_columns)));
}

/// Fills the memory with zeros, so that a run of one lane alone works on finite numbers.
std::unique_ptr<DeviceMemory> CudaPrepared::make_exchange(int rank, std::size_t byte_count) {
  auto memory = std::make_unique<DeviceMemory>(*plan_.device(rank).pool, byte_count);
  MC2_CUDA(cudaMemset(memory->bytes().data(), 0, byte_count));
  MC2_CUDA(cudaStreamSynchronize(nullptr)); // needed because peers and other streams do not wait for the null stream
  return memory;
}

void CudaPrepared::build(int rank) {
  RankState& state = plan_.state_of(rank);
  if (plan_.uses_two_streams()) communicator_.open_second_compute(rank);
  build_matmuls(plan_, rank);
  if (plan_.reads_device_counts)
    build_routing(plan_, rank);
  else
    build_row_copies(plan_, rank);
  for (Event* timed : {&state.begin, &state.compute_end, &state.communication_end, &state.finish})
    *timed = make_event(true);
  for (Event* mark : {&state.fork, &state.entry, &state.last_use}) *mark = make_event(false);
  state.local = {make_event(true), make_event(true)};
  for (std::size_t i = 0; i < plan_.list.stages.size(); ++i) {
    auto& ready = state.ready.emplace_back();
    for (int slice = 0; slice < plan_.transport->slice_count(); ++slice) ready.push_back(make_event(false));
    state.compute.push_back({make_event(true), make_event(true)});
    state.communication.push_back({make_event(true), make_event(true)});
  }
  MC2_CUDA(cudaDeviceSynchronize());
}

void CudaPrepared::share_places() {
  const auto address = [](const std::unique_ptr<DeviceMemory>& memory) {
    return memory ? memory->bytes().data() : nullptr;
  };
  const bool is_shared = plan_.transport->reaches_peers();
  const PeerReach reach = peer_reach();
  std::vector<std::vector<std::byte*>> own;
  for (const RankState& state : plan_.ranks) {
    // The cast is safe because collectives only read A. A rank may have no rows.
    auto* const a = state.buffers.a.empty() ? nullptr : const_cast<std::byte*>(state.buffers.a.data());
    auto* const c = state.buffers.c.empty() ? nullptr : state.buffers.c.data();
    own.push_back({a, c, address(state.exchange), address(state.spare), address(state.staging),
                   address(state.tile_memory), state.routing ? state.routing->table() : nullptr});
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
  for (const auto& found : all.of_rank)
    plan_.places.push_back({found[0], found[1], found[2], found[3], found[4], found[5], found[6]});
  mappings_ = std::move(all.mappings);
}

/// The minimum over all ranks, so that all use the same span. Each rank knows only its own matrices' alignment if peers
/// do not reach them.
std::size_t CudaPrepared::shortest_span() {
  const auto own = static_cast<std::int64_t>(
      plan_.transport->span_length(plan_.exchanges(plan_.list.stages.size(), RunMode::Fused)));
  return static_cast<std::size_t>(-communicator_.maximum(-own));
}

/// Registers the memory that collectives read and write, in the same order on every rank.
void CudaPrepared::register_windows(int rank) {
  RankState& state = plan_.state_of(rank);
  plan_.transport->register_memory(rank, state.exchange->bytes());
  if (state.spare) plan_.transport->register_memory(rank, state.spare->bytes());
  if (state.staging) plan_.transport->register_memory(rank, state.staging->bytes());
  const std::span<const std::byte> a = state.buffers.a;
  plan_.transport->register_memory(
      rank, plan_.gathers_first ? std::span(const_cast<std::byte*>(a.data()), a.size()) : state.buffers.c);
}

void CudaPrepared::capture(int rank, RunMode mode) {
  plan_.state_of(rank).graphs[index_of(mode)] = capture_run(plan_, {rank, mode, RunDetail::Makespan});
}

void CudaPrepared::capture_enqueued(int rank) {
  plan_.state_of(rank).enqueued_graph = capture_run(plan_, enqueued_run(plan_, rank));
}

/// Drops all graphs, after the runs under way on the callers' streams, which still use them.
void CudaPrepared::forget_graphs() {
  communicator_.run([&](int rank) {
    communicator_.wait(rank, plan_.state_of(rank).last_use);
    communicator_.wait(rank, plan_.device(rank).compute.get());
    plan_.state_of(rank).graphs = {};
    capture_enqueued(rank);
  });
  has_stale_graphs_ = false;
}

CudaPrepared::~CudaPrepared() {
  std::optional<RunTurn> turn; // a failed prepare() still holds the turn
  if (is_ready_) turn.emplace(communicator_.turn(), RunTurn::Waits{});
  bool is_over = !communicator_.has_failed();
  try { // another plan may get the memory next, so runs under way must end first
    for (const int rank : communicator_.local_ranks())
      if (plan_.state_of(rank).last_use) communicator_.wait(rank, plan_.state_of(rank).last_use);
  } catch (const std::exception& error) { // the communicator is aborted, or a caller's stream is held up
    is_over = false;
    executor::log_failure("text=\"closing a plan: " + std::string(error.what()) + "\"");
  }
  if (!is_over) {
    std::ranges::for_each(plan_.ranks, &RankState::keep_memory);
    communicator_.keep(std::move(mappings_));
  }
  for (const int rank : communicator_.local_ranks()) {
    const OnDevice on_device(communicator_.device_number(rank));
    if (plan_.device(rank).last_use == plan_.state_of(rank).last_use.get()) plan_.device(rank).last_use = nullptr;
    plan_.state_of(rank).graphs = {}; // destroyed before the memory that they use
    plan_.state_of(rank).enqueued_graph = {};
    plan_.state_of(rank).moved_graphs.clear();
  }
  if (!plan_.transport->has_windows()) return;
  try {
    communicator_.run([this](int rank) { plan_.transport->release_memory(rank); });
  } catch (const std::exception& error) { // an aborted communicator has lost its windows already
    executor::log_failure("text=\"releasing windows: " + std::string(error.what()) + "\"");
  }
}

Result<void> CudaPrepared::rebind(std::span<const RankBuffers> buffers) {
  const RunTurn turn(communicator_.turn());
  if (plan_.transport->has_windows())
    return Error{ErrorCode::Unsupported, "variant",
                 "NCCL's windows are registered for the matrices that they were prepared with"};
  // NCCL needs all ranks to replay one capture, or none. So graphs are stale even if this rank's matrices are refused
  // below, because other ranks' may be accepted.
  if (plan_.transport->uses_nccl()) has_stale_graphs_ = true;
  const auto ranks = communicator_.local_ranks();
  MC2_TRY(check_buffers(plan_.list.op, ranks, buffers));
  MC2_TRY(check_places(communicator_.ranks_and_devices(), buffers));
  for (const int rank : ranks) {
    const RankBuffers& next = buffers[communicator_.local_index(rank)];
    MC2_TRY(check_counts(rank, next));
    MC2_TRY(check_replacement(rank, plan_.state_of(rank).prepared_with, next, peer_reach()));
  }
  for (const int rank : ranks) replace(rank, buffers[communicator_.local_index(rank)]);
  return {};
}

/// Checks that the counts are those of the plan. Errors: InvalidSpec naming the rank.
Result<void> CudaPrepared::check_counts(int rank, const RankBuffers& next) const {
  const bool reads_device = !next.device_send_counts.empty(), has_counts = reads_device || !next.send_counts.empty();
  if (reads_device == plan_.reads_device_counts &&
      (plan_.row_runs && !reads_device ? plan_.row_runs->are_counts_of(rank, next)
                                       : has_counts == plan_.reads_device_counts))
    return {};
  return Error{ErrorCode::InvalidSpec, "counts",
               rank_text(rank) + " brings others than the plan was prepared with; prepare it for these"};
}

void CudaPrepared::replace(int rank, const RankBuffers& next) {
  RankState& state = plan_.state_of(rank);
  const RankBuffers now = std::exchange(state.buffers, next);
  state.buffers.send_counts = state.buffers.receive_counts = {};
  const bool may_be_same = !plan_.transport->uses_nccl() && !plan_.list.op.tables; // bags at one address may differ
  if (may_be_same && addresses_of(now) == addresses_of(next)) return;
  has_stale_graphs_ = true;
  Places& places = plan_.places[static_cast<std::size_t>(rank)];
  places.a = const_cast<std::byte*>(next.a.data()); // collectives only read A
  places.c = next.c.data();
  rebind_matmuls(plan_, rank, now);
}

const RunRecord& CudaPrepared::run(RunMode asked, RunDetail detail) {
  const RunMode mode = mode_of(plan_.list, asked);
  MC2_CHECK(mode != RunMode::Independent || plan_.ranks.front().spare != nullptr,
            "RunMode::Independent needs PrepareOptions::allow_independent");
  const RunTurn turn(communicator_.turn());
  for (const int rank : communicator_.local_ranks())
    if (communicator_.is_in_capture(rank)) throw SystemError("run", EBUSY, kInCapture);
  const bool launches_stages = detail == RunDetail::Stages && (mode == RunMode::Fused || mode == RunMode::Serial);
  const bool launches_graph = !launches_stages && CudaCommunicator::may_launch_graphs();
  if (has_stale_graphs_) forget_graphs();
  // Also where no graph is launched: cuBLASLt loads a kernel when it is first launched or captured. Loading waits for
  // the device's kernels, and these may wait for what is launched next.
  const bool is_captured = static_cast<bool>(plan_.ranks.front().graphs[index_of(mode)]);
  if (!is_captured) communicator_.run_while_connecting([&](int rank) { capture(rank, mode); });
  communicator_.run([&](int rank) {
    const RankState& state = plan_.state_of(rank);
    const cudaStream_t stream = plan_.device(rank).compute.get();
    auto turn_to_launch = communicator_.launch_turn(rank);
    // Earlier enqueued runs use the same memory, and those of other plans the same signals.
    for (const cudaEvent_t use : {state.last_use.get(), plan_.device(rank).last_use})
      if (use != nullptr) MC2_CUDA(cudaStreamWaitEvent(stream, use, 0));
    if (launches_graph) {
      check(cudaGraphLaunch(state.graphs[index_of(mode)].get(), stream), "cudaGraphLaunch", rank);
    } else {
      enqueue_run(plan_, {rank, mode, launches_stages ? detail : RunDetail::Makespan});
    }
    turn_to_launch = {};
    communicator_.wait(rank, stream);
    require_legal_input(plan_, rank);
    read_times(plan_, rank, mode, launches_stages, record_.ranks[static_cast<std::size_t>(rank)]);
  });
  finish_record(plan_, launches_stages, record_);
  return record_;
}

Result<void> CudaPrepared::enqueue(std::span<void* const> streams, Submission submission) {
  MC2_TRY(check_streams(streams, communicator_.ranks_and_devices()));
  const RunTurn turn(communicator_.turn());
  std::optional<int> captured_rank, free_rank;
  for (const int rank : communicator_.local_ranks()) {
    const auto stream = static_cast<cudaStream_t>(streams[communicator_.local_index(rank)]);
    MC2_ASSIGN(const bool is_captured,
               is_in_legal_capture({rank, communicator_.device_number(rank)}, stream, plan_.state_of(rank).entry));
    (is_captured ? captured_rank : free_rank) = rank;
    if (!is_captured && communicator_.is_in_capture(rank)) return Error{ErrorCode::InvalidSpec, "streams", kInCapture};
  }
  if (captured_rank && free_rank)
    return Error{ErrorCode::InvalidSpec, "streams",
                 rank_text(*captured_rank) + "'s is being captured and " + rank_text(*free_rank) +
                     "'s is not; capture all of them, or none"};
  communicator_.run([&](int rank) {
    require_legal_input(plan_, rank); // checks the runs before this one, since no other call waits for them
    const auto turn_to_launch = communicator_.launch_turn(rank);
    enqueue_behind(rank, static_cast<cudaStream_t>(streams[communicator_.local_index(rank)]), submission);
  });
  return {};
}

/// The graph that enqueue() launches; null if the run is launched piece by piece.
cudaGraphExec_t CudaPrepared::graph_to_launch(int rank) {
  return has_stale_graphs_ ? graph_of_moved_matrices(plan_, rank) : plan_.state_of(rank).enqueued_graph.get();
}

void CudaPrepared::enqueue_behind(int rank, cudaStream_t stream, Submission submission) {
  const RankState& state = plan_.state_of(rank);
  const bool is_callers_graph = is_capturing(stream);
  const bool may_launch = submission == Submission::Graph && !is_callers_graph && CudaCommunicator::may_launch_graphs();
  if (const cudaGraphExec_t graph = may_launch ? graph_to_launch(rank) : nullptr; graph != nullptr) {
    check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch", rank);
  } else {
    const cudaStream_t compute = plan_.device(rank).compute.get();
    order(stream, compute, state.entry);
    enqueue_run(plan_, enqueued_run(plan_, rank));
    order(compute, stream, state.entry);
  }
  if (is_callers_graph) return;
  MC2_CUDA(cudaEventRecord(state.last_use.get(), stream));
  plan_.device(rank).last_use = state.last_use.get();
}

} // namespace mc2::executor::cuda
