#include "backends/cuda/lane_streams.hpp"

#include "backends/cuda/lane_times.hpp"
#include "backends/cuda/rank_matmuls.hpp"
#include "backends/cuda/runtime/machine.hpp"
#include "named_range.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::Lane;

/// Records an event that takes the time. In a captured graph it is a node of its own instead of an edge.
void take_time(const Event& event, cudaStream_t stream) {
  MC2_CUDA(cudaEventRecordWithFlags(event.get(), stream,
                                    is_capturing(stream) ? cudaEventRecordExternal : cudaEventRecordDefault));
}

/// Enqueues one rank's run.
class RunStreams {
 public:
  RunStreams(BoundPlan& plan, const RankRun& run)
      : plan_(plan), run_(run), state_(plan.state_of(run.rank)), device_(plan.device(run.rank)) {}

  void enqueue() {
    const cudaStream_t compute = device_.compute.get();
    const RankBuffers& buffers = state_.buffers;
    if (state_.routing) state_.routing->enqueue_telling(buffers.device_send_counts, compute);
    // Ranks begin together, so that a rank's times include no wait for a peer that was launched later.
    plan_.communicator.enqueue_meeting(run_.rank, compute);
    if (run_.is_timed) take_time(state_.begin, compute);
    if (state_.routing) enqueue_routing();
    if (state_.tiles && run_.mode == RunMode::Fused)
      enqueue_tiles();
    else
      enqueue_streams();
    if (run_.is_timed) take_time(state_.finish, compute);
  }

 private:
  /// Without a communication lane the ranks meet here: a peer may tell the counts of its next run as soon as its own
  /// part of this run is over.
  void enqueue_routing() {
    const cudaStream_t compute = device_.compute.get();
    state_.routing->enqueue_lists(state_.buffers.c, compute);
    if (!runs_lane(run_.mode, Lane::Communication)) plan_.communicator.enqueue_meeting(run_.rank, compute);
  }

  /// Enqueues a run that uses several streams.
  void enqueue_streams() {
    const cudaStream_t compute = device_.compute.get();
    const cudaStream_t communication = device_.communication.get();
    order(compute, communication, state_.fork);
    if (state_.sorter && runs_lane(run_.mode, Lane::Compute)) state_.sorter->enqueue(state_.buffers.choices, compute);
    if (plan_.uses_two_streams()) order(compute, device_.second_compute.get(), state_.fork);
    if (is_serial(run_.mode))
      enqueue_serial();
    else
      enqueue_lanes();
    enqueue_gathered_a();
    if (!plan_.finishes_blocks(run_.mode)) enqueue_whole_epilogue(communication);
    if (plan_.uses_two_streams()) order(device_.second_compute.get(), compute, state_.fork);
    if (plan_.spanned(run_.mode, run_.detail) > 0 && run_.mode == RunMode::Fused)
      order(device_.announcements.get(), communication, state_.fork);
    if (times_lanes(run_.mode)) {
      take_time(state_.compute_end, compute);
      take_time(state_.communication_end, communication);
    }
    order(communication, compute, state_.fork);
  }

  void enqueue_lanes() {
    enqueue_span();
    if (plan_.variant.stores_tiles && runs_lane(run_.mode, Lane::Compute)) enqueue_products();
    for (std::size_t i = 0; i < plan_.list.stages.size(); ++i) {
      for (int slice = 0; slice < plan_.transport->slice_count(); ++slice) {
        // Enqueues in the order of dependence, because an event must be recorded before a stream can wait for it.
        if (plan_.gathers_first) enqueue_communication(i, slice);
        if (i == 0 && slice == 0) enqueue_local();
        enqueue_compute(i, slice);
        if (!plan_.gathers_first) enqueue_communication(i, slice);
      }
    }
  }

  /// Blocks of one kernel have no times of their own: each gets the time of the whole run, in both lanes.
  void enqueue_tiles() {
    const NamedRange range("mc2 tiles", run_.rank);
    take_kernel_times(&StageEvents::start);
    state_.tiles->enqueue(device_.compute.get());
    enqueue_whole_epilogue(device_.compute.get());
    take_kernel_times(&StageEvents::end);
  }

  void enqueue_products() {
    const NamedRange range("mc2 products", run_.rank);
    take_kernel_times(&StageEvents::start);
    state_.tiles->enqueue_products(device_.compute.get());
    take_kernel_times(&StageEvents::end);
  }

  void take_kernel_times(Event StageEvents::*event) {
    if (run_.detail != RunDetail::Stages) return;
    const cudaStream_t compute = device_.compute.get();
    for (const StageEvents& block : state_.compute) take_time(block.*event, compute);
    if (run_.mode != RunMode::Fused) return;
    for (const StageEvents& block : state_.communication) take_time(block.*event, compute);
  }

  void enqueue_span() {
    const std::size_t count = plan_.spanned(run_.mode, run_.detail);
    if (count == 0 || !runs_lane(run_.mode, Lane::Communication)) return;
    const cudaStream_t stream = device_.communication.get();
    plan_.transport->enqueue_span(run_.rank, plan_.exchanges(count, run_.mode), run_.mode == RunMode::Fused, stream);
    const Stage& last = plan_.list.stages[count - 1];
    enqueue_epilogue({.first_row = 0, .row_count = last.first_row + last.row_count}, stream);
    if (is_stamped(plan_, Lane::Communication, run_.mode, count - 1))
      take_time(state_.communication[count - 1].end, stream);
  }

  void enqueue_serial() {
    const cudaStream_t compute = device_.compute.get();
    const auto communicate = [&] {
      for (std::size_t i = 0; i < plan_.list.stages.size(); ++i) {
        for (int slice = 0; slice < plan_.transport->slice_count(); ++slice) enqueue_communication(i, slice);
      }
    };
    if (plan_.gathers_first) {
      communicate();
      order(device_.communication.get(), compute, state_.fork);
    }
    const bool is_timed = run_.detail == RunDetail::Stages;
    if (plan_.variant.stores_tiles) enqueue_products();
    for (std::size_t i = 0; i < plan_.list.stages.size() && !plan_.variant.stores_tiles; ++i) {
      if (is_timed) take_time(state_.compute[i].start, compute);
      if (plan_.gathers_first) {
        state_.serial_matmuls[i].enqueue(compute);
      } else {
        for (int slice = 0; slice < plan_.transport->slice_count(); ++slice)
          enqueue_matmuls(plan_, run_.rank, i, slice, compute);
      }
      if (is_timed) take_time(state_.compute[i].end, compute);
    }
    if (plan_.gathers_first) return;
    order(compute, device_.communication.get(), state_.fork);
    communicate();
  }

  void enqueue_local() {
    if (!plan_.gathers_first || !runs_lane(run_.mode, Lane::Compute)) return;
    const NamedRange range("mc2 compute own rows", run_.rank);
    const cudaStream_t stream = device_.compute.get();
    const bool is_timed = run_.detail == RunDetail::Stages;
    if (run_.mode == RunMode::Fused && plan_.list.schedule != planner::Schedule::LocalFirst)
      MC2_CUDA(cudaStreamWaitEvent(stream, state_.ready.front().front().get(), 0));
    if (is_timed) take_time(state_.local.start, stream);
    state_.local_matmuls.enqueue(stream);
    if (is_timed || stamps_local(run_.mode)) take_time(state_.local.end, stream);
  }

  void enqueue_compute(std::size_t stage, int slice) {
    if (!runs_lane(run_.mode, Lane::Compute) || plan_.variant.stores_tiles) return;
    const NamedRange range(block_range_name(Lane::Compute), static_cast<std::int64_t>(stage));
    const auto index = static_cast<std::size_t>(slice);
    const bool is_timed = run_.detail == RunDetail::Stages; // timed stages run one after the other, on one stream
    const cudaStream_t stream =
        (plan_.is_on_second_stream(stage, slice) && !is_timed ? device_.second_compute : device_.compute).get();
    const bool ends = slice + 1 == plan_.transport->slice_count();
    const bool is_last_stamped = is_stamped(plan_, Lane::Compute, run_.mode, stage);
    const bool waits = plan_.gathers_first && run_.mode == RunMode::Fused;
    const bool signals = !plan_.gathers_first && run_.mode == RunMode::Fused;
    if (waits) MC2_CUDA(cudaStreamWaitEvent(stream, state_.ready[stage][index].get(), 0));
    if (is_timed && slice == 0) take_time(state_.compute[stage].start, stream);
    enqueue_matmuls(plan_, run_.rank, stage, slice, stream);
    if (ends && (is_timed || is_last_stamped)) take_time(state_.compute[stage].end, stream);
    if (!signals) return;
    MC2_CUDA(cudaEventRecord(state_.ready[stage][index].get(), stream));
    if (stage >= plan_.spanned(run_.mode, run_.detail)) return;
    MC2_CUDA(cudaStreamWaitEvent(device_.announcements.get(), state_.ready[stage][index].get(), 0));
    plan_.transport->announce(run_.rank, device_.announcements.get());
  }

  void enqueue_communication(std::size_t stage, int slice) {
    if (!runs_lane(run_.mode, Lane::Communication) || stage < plan_.spanned(run_.mode, run_.detail)) return;
    if (plan_.carries_at_once(run_.mode) && stage > 0) return;
    const NamedRange range(block_range_name(Lane::Communication), static_cast<std::int64_t>(stage));
    const cudaStream_t stream = device_.communication.get();
    const auto index = static_cast<std::size_t>(slice);
    const bool is_timed = run_.detail == RunDetail::Stages;
    const bool ends = slice + 1 == plan_.transport->slice_count();
    const bool is_last_stamped = is_stamped(plan_, Lane::Communication, run_.mode, stage);
    const bool waits = !plan_.gathers_first && run_.mode == RunMode::Fused;
    const bool signals = plan_.gathers_first && run_.mode == RunMode::Fused;
    if (waits) MC2_CUDA(cudaStreamWaitEvent(stream, state_.ready[stage][index].get(), 0));
    if (is_timed && slice == 0) take_time(state_.communication[stage].start, stream);
    enqueue_exchange(stage, slice, stream);
    if (ends && (is_timed || is_last_stamped)) take_time(state_.communication[stage].end, stream);
    if (signals) MC2_CUDA(cudaEventRecord(state_.ready[stage][index].get(), stream));
  }

  void enqueue_exchange(std::size_t stage, int slice, cudaStream_t stream) {
    const BlockExchange block = plan_.exchange_of(stage, run_.mode);
    const Stage rows =
        plan_.cuts_columns ? Stage{.first_row = 0, .row_count = plan_.c_rows(run_.rank)} : plan_.list.stages[stage];
    const bool finishes = slice + 1 == plan_.transport->slice_count() && plan_.finishes_blocks(run_.mode);
    if (finishes && has_epilogue()) {
      const RowEpilogue epilogue = plan_.epilogue_of(run_.rank, rows);
      if (plan_.transport->finishes(run_.rank, block, epilogue))
        return plan_.transport->enqueue_and_finish(run_.rank, block, epilogue, stream);
    }
    plan_.transport->enqueue(run_.rank, block, slice, stream);
    if (finishes) enqueue_epilogue(rows, stream);
  }

  [[nodiscard]] bool has_epilogue() const {
    return !result_epilogue(plan_.list.op).is_empty() && runs_lane(run_.mode, Lane::Communication);
  }

  void enqueue_whole_epilogue(cudaStream_t stream) {
    enqueue_epilogue({.first_row = 0, .row_count = plan_.c_rows(run_.rank)}, stream);
  }

  /// Enqueues the epilogue of these rows of C.
  void enqueue_epilogue(const Stage& rows, cudaStream_t stream) {
    if (!has_epilogue()) return;
    const NamedRange range("mc2 epilogue", run_.rank);
    cuda::enqueue_epilogue(plan_.epilogue_of(run_.rank, rows), sm_count(), stream);
  }

  /// Copies the gathered A to the caller, after all exchanges and beside the last matmuls. In the exchange memory the
  /// rows lie block after block, and within a block shard after shard.
  void enqueue_gathered_a() {
    const RankBuffers& buffers = state_.buffers;
    if (buffers.gathered_a.empty() || !runs_lane(run_.mode, Lane::Communication)) return;
    const planner::OpSpec& op = plan_.list.op;
    const auto row_bytes = static_cast<std::size_t>(op.k * planner::size_bytes(op.dtype));
    const std::size_t shard_bytes = buffers.a.size();
    const cudaStream_t stream = device_.communication.get();
    const std::byte* from = state_.exchange->bytes().data();
    for (const Stage& stage : plan_.list.stages) {
      const std::size_t piece_bytes = static_cast<std::size_t>(stage.row_count) * row_bytes;
      std::byte* to = buffers.gathered_a.data() + static_cast<std::size_t>(stage.first_row) * row_bytes;
      for (int shard = 0; shard < op.world_size; ++shard, from += piece_bytes, to += shard_bytes)
        // not a 2D copy, because the pitch may be above 2^31
        MC2_CUDA(cudaMemcpyAsync(to, from, piece_bytes, cudaMemcpyDeviceToDevice, stream));
    }
    MC2_CUDA(cudaMemcpyAsync(buffers.gathered_a.data() + static_cast<std::size_t>(run_.rank) * shard_bytes,
                             buffers.a.data(), shard_bytes, cudaMemcpyDeviceToDevice, stream));
  }

  BoundPlan& plan_;
  RankRun run_;
  RankState& state_;
  const RankDevice& device_;
};

} // namespace

void order(cudaStream_t from, cudaStream_t to, const Event& event) {
  MC2_CUDA(cudaEventRecord(event.get(), from));
  MC2_CUDA(cudaStreamWaitEvent(to, event.get(), 0));
}

void enqueue_run(BoundPlan& plan, const RankRun& run) { RunStreams(plan, run).enqueue(); }

} // namespace mc2::executor::cuda
