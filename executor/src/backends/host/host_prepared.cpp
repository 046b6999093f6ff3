#include "backends/host/host_prepared.hpp"

#include <algorithm>
#include <string>
#include <thread>

#include "backends/host/mechanisms/mechanism.hpp"
#include "backends/host/virtual_device.hpp"
#include "mc2/planner/collective.hpp"
#include "named_range.hpp"
#include "random_fill.hpp"
#include "run_turn.hpp"

namespace mc2::executor::host {
namespace {

constexpr std::uint64_t kRandomSeed = 0x6D63327061727431ULL;
constexpr std::size_t kHeapAlignment = 4096;

StageTime relative_to(lanes::Clock::time_point origin, lanes::Clock::time_point start, lanes::Clock::time_point end) {
  return {start - origin, end - origin};
}

/// Names the rank for failures that do not come from one of mc2's own check wrappers.
planner::SystemError lane_error(int rank, planner::Lane lane, const char* what) {
  return {"lane", 0, "rank " + std::to_string(rank) + ", " + std::string(planner::to_string(lane)) + " lane: " + what};
}

} // namespace

HostPrepared::HostPrepared(HostCommunicator& communicator, const StageList& stages, const HostVariant& variant,
                           std::span<const RankBuffers> buffers, const PrepareOptions& options)
    : communicator_(communicator),
      list_(stages),
      splits_(stages.op, buffers),
      order_(variant.order),
      slice_count_(static_cast<std::size_t>(variant.slice_count)),
      mechanism_(make_mechanism(variant, mechanism_shape(stages.op), communicator.proxies())),
      transport_(mechanism_ ? *mechanism_ : communicator.transport()),
      matrices_(buffers.size()),
      ranks_(buffers.size()) {
  allocate(buffers, options.allow_independent);
  // On the compute lanes: pages and packed weights land near the cores that use them, and the matmul library sizes
  // its team by the building thread.
  communicator_.call_on_lanes(planner::Lane::Compute, [this](int rank) { build(rank); });
}

void HostPrepared::allocate(std::span<const RankBuffers> buffers, bool allow_independent) {
  const auto bytes = static_cast<std::size_t>(lanes::intermediate_bytes(list_.op));
  const std::size_t spare_offset = (bytes + kHeapAlignment - 1) / kHeapAlignment * kHeapAlignment;
  heap_ = std::make_unique<lanes::SymmetricHeap>(list_.op.world_size, allow_independent ? spare_offset + bytes : bytes);
  const auto longest = std::ranges::max_element(list_.stages, {}, &Stage::row_count)->row_count;
  const std::int64_t staged = staging_bytes(list_.op, longest, transport_);
  for (const int rank : communicator_.local_ranks()) {
    const auto index = static_cast<std::size_t>(rank);
    lanes::RankMatrices& own = matrices_[index];
    own.buffers = buffers[index];
    own.intermediate = own.buffers.gathered_a.empty() ? heap_->segment(rank).first(bytes) : own.buffers.gathered_a;
    if (allow_independent) own.spare_intermediate = heap_->segment(rank).subspan(spare_offset, bytes);
    ranks_[index].staging.resize(static_cast<std::size_t>(staged));
    intermediates_.emplace_back(own.intermediate);
    record_.ranks.push_back(
        {rank, std::vector<StageTime>(list_.stages.size()), std::vector<StageTime>(list_.stages.size()), {}});
    plan_work(rank);
  }
}

void HostPrepared::plan_work(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  RankState& state = ranks_[index];
  state.local_work = lanes::local_work(list_.op, splits_, rank, matrices_[index]);
  for (const Stage& stage : list_.stages) {
    for (std::size_t slice = 0; slice < slice_count_; ++slice) {
      state.parts.push_back({stage, {}});
      if (slice_count_ > 1)
        state.parts.back().only_from = lanes::peer_at(order_, rank, list_.op.world_size, static_cast<int>(slice));
      state.work.push_back(lanes::part_work(list_.op, splits_, rank, state.parts.back(), matrices_[index]));
    }
  }
  state.ready_at.resize(state.parts.size());
  state.pieces = lanes::PieceAddresses(ranks_.size());
}

void HostPrepared::build(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  RankState& state = ranks_[index];
  touch(matrices_[index], rank);
  if (const auto& virtual_compute = communicator_.options().virtual_compute) {
    state.device = make_virtual_device(rank, *virtual_compute);
    return;
  }
  state.device =
      lanes::make_device(list_.op, rank, matrices_[index].buffers, lanes::shapes_of(state.local_work, state.work));
}

/// Every page is written once: an untouched one would be read from a shared page of zeros, faster than real data.
void HostPrepared::touch(const lanes::RankMatrices& own, int rank) const {
  std::ranges::fill(own.spare_intermediate, std::byte{0});
  // Random where it is read before a lane has written it: products that virtual compute leaves out, and rows of A
  // that are multiplied before any have arrived.
  if (communicator_.options().virtual_compute || lanes::communicates_first(list_.op)) {
    fill_random(planner::exchange_type(list_.op), own.intermediate, kRandomSeed + static_cast<std::uint64_t>(rank));
  } else {
    std::ranges::fill(own.intermediate, std::byte{0});
  }
}

const RunRecord& HostPrepared::run(RunMode asked, RunDetail /*detail*/) {
  const RunMode mode = mode_of(list_, asked);
  MC2_CHECK(mode != RunMode::Independent || !matrices_.front().spare_intermediate.empty(),
            "RunMode::Independent needs PrepareOptions::allow_independent");
  const RunTurn turn(communicator_.turn());
  for (RankTimes& rank : record_.ranks) {
    std::ranges::fill(rank.compute, StageTime{});
    std::ranges::fill(rank.communication, StageTime{});
    rank.local = {};
  }
  const auto called = lanes::Clock::now();
  communicator_.execute(*this, transport_, mode, [this](lanes::Clock::time_point start) {
    for (RankState& state : ranks_) {
      state.device->begin_run(start);
      state.gathered_end = {};
    }
  });
  record_.wall = lanes::Clock::now() - called;
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
  } catch (const lanes::RunAborted&) { // another lane has recorded why
  } catch (const planner::SystemError& error) {
    communicator_.fail(error);
  } catch (const std::exception& error) {
    communicator_.fail(lane_error(rank, lane, error.what()));
  } catch (...) {
    communicator_.fail(lane_error(rank, lane, "an exception of unknown type"));
  }
}

void HostPrepared::compute(int rank) {
  lanes::RunControl& control = communicator_.control();
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  RankTimes& times = record_.ranks[static_cast<std::size_t>(rank)];
  if (!state.local_work.runs.empty()) {
    const bool waits = control.mode() == RunMode::Serial || list_.schedule != planner::Schedule::LocalFirst;
    const auto ready = waits ? ready_time(rank, planner::Lane::Compute, 0) : control.start();
    const lanes::ComputeTimes when = state.device->multiply(state.local_work, ready, control);
    times.local = relative_to(control.start(), when.start, when.end);
  }
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    times.compute[i] =
        run_stage(rank, planner::Lane::Compute, i, [&](std::size_t part, lanes::Clock::time_point ready) {
          return state.device->multiply(state.work[part], ready, control);
        });
  }
}

void HostPrepared::communicate(int rank) {
  lanes::RunControl& control = communicator_.control();
  auto& times = record_.ranks[static_cast<std::size_t>(rank)].communication;
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    times[i] = run_stage(rank, planner::Lane::Communication, i, [&](std::size_t part, lanes::Clock::time_point ready) {
      return transport_.exchange(exchange_of(rank, part, ready), control);
    });
  }
  const lanes::RankMatrices& own = matrices_[static_cast<std::size_t>(rank)];
  if (own.buffers.gathered_a.empty()) return;
  lanes::complete_gathered_a(list_, rank, own);
  ranks_[static_cast<std::size_t>(rank)].gathered_end = lanes::Clock::now() - control.start();
}

template <typename RunPart>
StageTime HostPrepared::run_stage(int rank, planner::Lane lane, std::size_t stage, const RunPart& run_part) {
  lanes::RunControl& control = communicator_.control();
  const NamedRange range(block_range_name(lane), static_cast<std::int64_t>(stage));
  call_hook(rank, lane, stage);
  StageTime time;
  for (std::size_t slice = 0; slice < slice_count_; ++slice) {
    const std::size_t part = stage * slice_count_ + slice;
    const auto when = run_part(part, ready_time(rank, lane, part));
    const StageTime part_time = relative_to(control.start(), when.start, when.end);
    if (slice == 0) time.start = part_time.start;
    time.end = part_time.end;
    if (is_first(lane)) hand_over(rank, part, when.end);
  }
  control.stage_finished(rank, lane);
  return time;
}

void HostPrepared::hand_over(int rank, std::size_t part, lanes::Clock::time_point end) {
  ranks_[static_cast<std::size_t>(rank)].ready_at[part] = end;
  communicator_.control().ready(rank).add();
  // Where the lanes share a core, the scheduler would let a new matmul finish its slice before the lane that was
  // just woken runs: measured 1 to 2.6 ms of idle link on the first block of a run.
  std::this_thread::yield();
}

lanes::Clock::time_point HostPrepared::ready_time(int rank, planner::Lane lane, std::size_t part) {
  const lanes::Clock::time_point start = communicator_.control().start();
  const RunMode mode = communicator_.control().mode();
  if (is_first(lane) || (mode != RunMode::Fused && mode != RunMode::Serial)) return start;
  if (mode == RunMode::Serial) part = list_.stages.size() * slice_count_ - 1;
  const bool needs_all = lane == planner::Lane::Communication && transport_.reads_peers_directly();
  if (!needs_all) return wait_for(rank, rank, part);
  lanes::Clock::time_point latest = start;
  for (const int peer : communicator_.local_ranks()) latest = std::max(latest, wait_for(rank, peer, part));
  return latest;
}

lanes::Clock::time_point HostPrepared::wait_for(int rank, int peer, std::size_t part) {
  lanes::RunControl& control = communicator_.control();
  switch (control.ready(peer).wait_at_least(static_cast<std::uint32_t>(part) + 1, control.deadline())) {
    case lanes::WaitResult::Reached: break;
    case lanes::WaitResult::Aborted: throw lanes::RunAborted{};
    case lanes::WaitResult::TimedOut:
      throw lanes::deadline_error("rank " + std::to_string(rank) + " waited for block " +
                                  std::to_string(part / slice_count_) + " of rank " + std::to_string(peer));
  }
  return ranks_[static_cast<std::size_t>(peer)].ready_at[part];
}

lanes::BlockExchange HostPrepared::exchange_of(int rank, std::size_t part, lanes::Clock::time_point ready) {
  const auto index = static_cast<std::size_t>(rank);
  RankState& state = ranks_[index];
  const lanes::StagePart& from = state.parts[part];
  const Stage& block = from.stage;
  const bool uses_spare = communicator_.control().mode() == RunMode::Independent;
  lanes::locate_pieces(list_.op, splits_, {rank, from, uses_spare}, matrices_, state.pieces);
  const planner::DType dtype = planner::exchange_type(list_.op);
  return {.rank = rank,
          .block = part / slice_count_,
          .dtype = dtype,
          .element_count = lanes::piece_bytes(list_.op, block.row_count) / planner::size_bytes(dtype),
          .pieces = &state.pieces,
          .sum = lanes::sum_target(list_.op, block, matrices_[index]),
          .landing = lanes::landing_pitch(list_.op),
          .staging = state.staging,
          .ready = ready,
          .order = order_};
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
      if (name == planner::Lane::Compute && !ranks_[static_cast<std::size_t>(rank.rank)].local_work.runs.empty())
        first = std::min(first, rank.local.start);
    }
    last = std::max(last, ranks_[static_cast<std::size_t>(rank.rank)].gathered_end);
  }
  record_.makespan = last - first;
}

} // namespace mc2::executor::host
