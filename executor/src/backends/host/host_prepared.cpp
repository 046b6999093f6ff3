#include "backends/host/host_prepared.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "random_fill.hpp"

namespace mc2::executor::host {
namespace {

constexpr std::uint64_t kVirtualPartialSeed = 0x6D63327061727431ULL;
constexpr std::size_t kHeapAlignment = 4096;

StageTime relative_to(Clock::time_point origin, Clock::time_point start, Clock::time_point end) {
  return {start - origin, end - origin};
}

/// Names the rank for failures that do not come from one of mc2's own check wrappers.
planner::SystemError lane_error(int rank, planner::Lane lane, const char* what) {
  return {"lane", 0,
          "rank " + std::to_string(rank) + ", " + std::string(planner::to_string(lane)) + " lane: " + what};
}

} // namespace

HostPrepared::HostPrepared(HostCommunicator& communicator, const StageList& stages,
                           std::span<const RankBuffers> buffers, const PrepareOptions& options)
    : communicator_(communicator), list_(stages), ranks_(buffers.size()) {
  allocate(buffers, options.allow_independent);
  // On the compute lanes: pages and packed weights land near the cores that use them, and the matmul library sizes
  // its team by the building thread.
  communicator_.call_on_lanes(planner::Lane::Compute, [this](int rank) { build(rank); });
}

void HostPrepared::allocate(std::span<const RankBuffers> buffers, bool allow_independent) {
  const std::int64_t row_bytes = list_.op.n * planner::size_bytes(list_.op.dtype);
  const auto partial_bytes = static_cast<std::size_t>(list_.op.m * row_bytes);
  const std::size_t spare_offset = (partial_bytes + kHeapAlignment - 1) / kHeapAlignment * kHeapAlignment;
  heap_ = std::make_unique<SymmetricHeap>(list_.op.world_size,
                                          allow_independent ? spare_offset + partial_bytes : partial_bytes);
  const auto longest = std::ranges::max_element(list_.stages, {}, &Stage::row_count)->row_count;
  const std::int64_t staging_bytes = communicator_.transport().staging_bytes(longest * row_bytes);
  for (const int rank : communicator_.local_ranks()) {
    const auto index = static_cast<std::size_t>(rank);
    RankState& state = ranks_[index];
    state.buffers = buffers[index];
    state.partial = heap_->segment(rank).first(partial_bytes);
    if (allow_independent) state.spare_partial = heap_->segment(rank).subspan(spare_offset, partial_bytes);
    state.staging.resize(static_cast<std::size_t>(staging_bytes));
    state.ready_at.resize(list_.stages.size());
    state.block_partials.resize(ranks_.size());
    intermediates_.emplace_back(state.partial);
    record_.ranks.push_back(
        {rank, std::vector<StageTime>(list_.stages.size()), std::vector<StageTime>(list_.stages.size()), {}});
  }
}

void HostPrepared::build(int rank) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const auto& virtual_compute = communicator_.options().virtual_compute;
  // Every page is written once: an untouched one would be read from a shared page of zeros, faster than real data.
  std::memset(state.partial.data(), 0, state.partial.size());
  if (!state.spare_partial.empty()) std::memset(state.spare_partial.data(), 0, state.spare_partial.size());
  if (virtual_compute) {
    fill_random(list_.op.dtype, state.partial, kVirtualPartialSeed + static_cast<std::uint64_t>(rank));
    state.device = make_virtual_device(list_.op, rank, *virtual_compute);
  } else {
    state.device = make_matmul_device(list_, rank, state.buffers, state.partial);
  }
}

const RunRecord& HostPrepared::run(RunMode mode) {
  MC2_CHECK(mode != RunMode::Independent || !ranks_.front().spare_partial.empty(),
            "RunMode::Independent needs PrepareOptions::allow_independent");
  for (RankTimes& rank : record_.ranks) {
    std::ranges::fill(rank.compute, StageTime{});
    std::ranges::fill(rank.communication, StageTime{});
  }
  const auto called = Clock::now();
  communicator_.execute(*this, mode, [this](Clock::time_point start) {
    for (RankState& state : ranks_) state.device->begin_run(start);
  });
  record_.wall = Clock::now() - called;
  finish_record();
  return record_;
}

void HostPrepared::run_lane(int rank, planner::Lane lane) noexcept {
  try {
    if (lane == planner::Lane::Compute) {
      compute(rank);
    } else {
      communicate(rank);
    }
  } catch (const RunAborted&) { // another lane has recorded why
  } catch (const planner::SystemError& error) {
    communicator_.fail(error);
  } catch (const std::exception& error) {
    communicator_.fail(lane_error(rank, lane, error.what()));
  } catch (...) {
    communicator_.fail(lane_error(rank, lane, "an exception of unknown type"));
  }
}

void HostPrepared::compute(int rank) {
  RunControl& control = communicator_.control();
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  auto& times = record_.ranks[static_cast<std::size_t>(rank)].compute;
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    call_hook(rank, planner::Lane::Compute, i);
    const ComputeTimes when = state.device->run_stage(list_.stages[i], control);
    times[i] = relative_to(control.start(), when.start, when.end);
    state.ready_at[i] = when.end;
    control.stage_finished(rank, planner::Lane::Compute);
    control.ready(rank).add();
    // Where the lanes share a core, the scheduler would let a new matmul finish its slice before the lane that was
    // just woken runs: measured 1 to 2.6 ms of idle link on the first block of a run.
    std::this_thread::yield();
  }
}

void HostPrepared::communicate(int rank) {
  RunControl& control = communicator_.control();
  auto& times = record_.ranks[static_cast<std::size_t>(rank)].communication;
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    call_hook(rank, planner::Lane::Communication, i);
    const auto ready = control.mode() == RunMode::Fused ? wait_until_ready(rank, i) : control.start();
    const ExchangeTimes when = communicator_.transport().all_reduce(exchange_of(rank, i, ready), control);
    times[i] = relative_to(control.start(), when.start, when.end);
    control.stage_finished(rank, planner::Lane::Communication);
  }
}

Clock::time_point HostPrepared::wait_until_ready(int rank, std::size_t stage) {
  RunControl& control = communicator_.control();
  const bool needs_all = communicator_.transport().reads_peers_directly();
  Clock::time_point latest = control.start();
  for (const int peer : communicator_.local_ranks()) {
    if (!needs_all && peer != rank) continue;
    switch (control.ready(peer).wait_at_least(static_cast<std::uint32_t>(stage) + 1, control.deadline())) {
      case WaitResult::Reached: break;
      case WaitResult::Aborted: throw RunAborted{};
      case WaitResult::TimedOut:
        throw deadline_error("rank " + std::to_string(rank) + " waited for block " + std::to_string(stage) +
                             " of rank " + std::to_string(peer));
    }
    latest = std::max(latest, ranks_[static_cast<std::size_t>(peer)].ready_at[stage]);
  }
  return latest;
}

BlockExchange HostPrepared::exchange_of(int rank, std::size_t stage, Clock::time_point ready) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  const bool reads_spare = communicator_.control().mode() == RunMode::Independent;
  const std::int64_t first_element = list_.stages[stage].first_row * list_.op.n;
  const std::int64_t offset_bytes = first_element * planner::size_bytes(list_.op.dtype);
  for (std::size_t peer = 0; peer < ranks_.size(); ++peer) {
    state.block_partials[peer] =
        (reads_spare ? ranks_[peer].spare_partial : ranks_[peer].partial).data() + offset_bytes;
  }
  return {.rank = rank,
          .block = stage,
          .dtype = list_.op.dtype,
          .element_count = list_.stages[stage].row_count * list_.op.n,
          .partials = state.block_partials,
          .result = state.buffers.c.data() + offset_bytes,
          .staging = state.staging,
          .ready = ready};
}

void HostPrepared::call_hook(int rank, planner::Lane lane, std::size_t stage) const {
  if (communicator_.hook()) communicator_.hook()(rank, lane, stage);
}

void HostPrepared::finish_record() {
  const RunMode mode = communicator_.control().mode();
  auto first = std::chrono::nanoseconds::max();
  auto last = std::chrono::nanoseconds::min();
  for (const RankTimes& rank : record_.ranks) {
    for (const auto* lane : {&rank.compute, &rank.communication}) {
      const auto name = lane == &rank.compute ? planner::Lane::Compute : planner::Lane::Communication;
      if (!runs_lane(mode, name)) continue;
      first = std::min(first, lane->front().start);
      last = std::max(last, lane->back().end);
    }
  }
  record_.makespan = last - first;
}

} // namespace mc2::executor::host
