#include "lanes/lane_prepared.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "mc2/planner/collective.hpp"
#include "named_range.hpp"
#include "random_fill.hpp"
#include "texts.hpp"

namespace mc2::executor::lanes {
namespace {

StageTime relative_to(Clock::time_point origin, Clock::time_point start, Clock::time_point end) {
  return {start - origin, end - origin};
}

} // namespace

std::string lane_text(int rank, planner::Lane lane) {
  return rank_text(rank) + ", " + std::string(planner::to_string(lane)) + " lane";
}

LanePrepared::LanePrepared(RunControl& control, const StageList& stages, std::span<const int> ranks, RowSplits splits)
    : control_(control),
      list_(stages),
      splits_(std::move(splits)),
      matrices_(static_cast<std::size_t>(stages.op.world_size)),
      ranks_(ranks.size()) {
  for (const int rank : ranks)
    record_.ranks.push_back(
        {rank, std::vector<StageTime>(list_.stages.size()), std::vector<StageTime>(list_.stages.size()), {}});
}

void LanePrepared::plan_work(const LaneRules& rules) {
  rules_ = rules;
  for (const RankTimes& times : record_.ranks) {
    RankState& state = state_of(times.rank);
    const RankMatrices& own = matrices_of(times.rank);
    state.local_work = local_work(list_.op, splits_, times.rank, own);
    for (const Stage& stage : list_.stages) {
      for (std::size_t slice = 0; slice < rules_.slice_count; ++slice) {
        state.parts.push_back({stage, {}});
        if (rules_.slice_count > 1)
          state.parts.back().only_from =
              peer_at(rules_.order, times.rank, list_.op.world_size, static_cast<int>(slice));
        state.work.push_back(part_work(list_.op, splits_, times.rank, state.parts.back(), own));
      }
    }
    state.ready_at.resize(state.parts.size());
    state.pieces = PieceAddresses(matrices_.size());
  }
}

void LanePrepared::touch(int rank, bool is_read_unwritten) {
  constexpr std::uint64_t kRandomSeed = 0x6D63326C616E6531ULL;
  const RankMatrices& own = matrices_of(rank);
  std::ranges::fill(own.spare_intermediate, std::byte{0});
  if (is_read_unwritten || communicates_first(list_.op))
    fill_random(planner::exchange_type(list_.op), own.intermediate, kRandomSeed + static_cast<std::uint64_t>(rank));
  else
    std::ranges::fill(own.intermediate, std::byte{0});
}

void LanePrepared::build_device(int rank) {
  RankState& state = state_of(rank);
  state.device = make_device(list_.op, rank, matrices_of(rank).buffers,
                             shapes_of(list_.op.experts_per_rank, state.local_work, state.work));
}

RunMode LanePrepared::checked_mode(RunMode asked) const {
  const RunMode mode = mode_of(list_, asked);
  const auto& own = matrices_[static_cast<std::size_t>(record_.ranks.front().rank)];
  MC2_CHECK(mode != RunMode::Independent || !own.spare_intermediate.empty(),
            "RunMode::Independent needs PrepareOptions::allow_independent");
  return mode;
}

void LanePrepared::clear_times() noexcept {
  for (RankTimes& rank : record_.ranks) {
    std::ranges::fill(rank.compute, StageTime{});
    std::ranges::fill(rank.communication, StageTime{});
    rank.local = {};
  }
  for (RankState& state : ranks_) state.completed_end = {};
}

void LanePrepared::run_lane(int rank, planner::Lane lane) noexcept {
  try {
    if (lane == planner::Lane::Compute) {
      compute(rank);
    } else {
      communicate(rank);
    }
  } catch (const RunAborted&) { // another lane has recorded the reason
  } catch (...) {
    fail(rank, lane);
  }
}

void LanePrepared::compute(int rank) {
  RankState& state = state_of(rank);
  RankTimes& times = record_.ranks[place_of(rank)];
  if (!state.local_work.runs.empty()) {
    const bool waits = control_.mode() == RunMode::Serial || list_.schedule != planner::Schedule::LocalFirst;
    const auto ready = waits ? ready_time(rank, planner::Lane::Compute, 0) : control_.start();
    const ComputeTimes when = state.device->multiply(state.local_work, ready, control_);
    times.local = relative_to(control_.start(), when.start, when.end);
  }
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    times.compute[i] = run_stage(rank, planner::Lane::Compute, i, [&](std::size_t part, Clock::time_point ready) {
      return state.device->multiply(state.work[part], ready, control_);
    });
  }
}

void LanePrepared::communicate(int rank) {
  auto& times = record_.ranks[place_of(rank)].communication;
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    times[i] = run_stage(rank, planner::Lane::Communication, i, [&](std::size_t part, Clock::time_point ready) {
      return exchange(exchange_of(rank, part, ready));
    });
  }
  if (complete(rank)) state_of(rank).completed_end = Clock::now() - control_.start();
}

bool LanePrepared::complete(int rank) noexcept {
  const RankMatrices& own = matrices_of(rank);
  if (norms_after_blocks(list_)) {
    norm_result(list_.op, own);
    return true;
  }
  if (own.buffers.gathered_a.empty()) return false;
  complete_gathered_a(list_, rank, own);
  return true;
}

template <typename RunPart>
StageTime LanePrepared::run_stage(int rank, planner::Lane lane, std::size_t stage, const RunPart& run_part) {
  const NamedRange range(block_range_name(lane), static_cast<std::int64_t>(stage));
  begin_stage(rank, lane, stage);
  StageTime time;
  for (std::size_t slice = 0; slice < rules_.slice_count; ++slice) {
    const std::size_t part = stage * rules_.slice_count + slice;
    const auto when = run_part(part, ready_time(rank, lane, part));
    const StageTime part_time = relative_to(control_.start(), when.start, when.end);
    if (slice == 0) time.start = part_time.start;
    time.end = part_time.end;
    if (slice + 1 == rules_.slice_count) control_.stage_finished(static_cast<int>(place_of(rank)), lane);
    if (is_first(lane)) hand_over(rank, part, when.end);
  }
  return time;
}

void LanePrepared::hand_over(int rank, std::size_t part, Clock::time_point end) {
  state_of(rank).ready_at[part] = end;
  control_.ready(static_cast<int>(place_of(rank))).add();
  // Where the lanes share a core, the scheduler would let the next matmul use up its time slice before the woken lane
  // runs: measured 1 to 2.6 ms of idle link on the first block of a run.
  std::this_thread::yield();
}

Clock::time_point LanePrepared::ready_time(int rank, planner::Lane lane, std::size_t part) {
  const Clock::time_point start = control_.start();
  const RunMode mode = control_.mode();
  if (is_first(lane) || (mode != RunMode::Fused && mode != RunMode::Serial)) return start;
  if (mode == RunMode::Serial) part = list_.stages.size() * rules_.slice_count - 1;
  const bool needs_all = lane == planner::Lane::Communication && rules_.reads_peers;
  if (!needs_all) return wait_for(rank, rank, part);
  Clock::time_point latest = start;
  for (const RankTimes& peer : record_.ranks) latest = std::max(latest, wait_for(rank, peer.rank, part));
  return latest;
}

Clock::time_point LanePrepared::wait_for(int rank, int peer, std::size_t part) {
  const auto until = rules_.watches_deadline ? control_.deadline() : Clock::time_point::max();
  const auto count = static_cast<std::uint32_t>(part) + 1;
  switch (control_.ready(static_cast<int>(place_of(peer))).wait_at_least(count, until)) {
    case WaitResult::Reached: break;
    case WaitResult::Aborted: throw RunAborted{};
    case WaitResult::TimedOut: throw deadline_error(awaited_piece(rank, part / rules_.slice_count, peer));
  }
  return state_of(peer).ready_at[part];
}

BlockExchange LanePrepared::exchange_of(int rank, std::size_t part, Clock::time_point ready) {
  RankState& state = state_of(rank);
  const StagePart& from = state.parts[part];
  const Stage& block = from.stage;
  const bool uses_spare = control_.mode() == RunMode::Independent;
  locate_pieces(list_.op, splits_, {rank, from, uses_spare}, matrices_, state.pieces);
  const planner::DType dtype = planner::exchange_type(list_.op);
  return {.rank = rank,
          .block = part / rules_.slice_count,
          .dtype = dtype,
          .element_count = piece_bytes(list_.op, block.row_count) / planner::size_bytes(dtype),
          .pieces = &state.pieces,
          .sum = sum_target(list_.op, block, matrices_of(rank)),
          .landing = landing_pitch(list_.op),
          .staging = state.staging,
          .ready = ready,
          .order = rules_.order};
}

LanePrepared::LaneSpan LanePrepared::lane_span() const noexcept {
  LaneSpan span{std::chrono::nanoseconds::max(), std::chrono::nanoseconds::min()};
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    const RankTimes& rank = record_.ranks[place];
    for (const auto lane : {planner::Lane::Compute, planner::Lane::Communication}) {
      if (!runs_lane(control_.mode(), lane)) continue;
      const auto& stages = lane == planner::Lane::Compute ? rank.compute : rank.communication;
      span.first = std::min(span.first, stages.front().start);
      span.last = std::max(span.last, stages.back().end);
      if (lane == planner::Lane::Compute && !ranks_[place].local_work.runs.empty())
        span.first = std::min(span.first, rank.local.start);
    }
    span.last = std::max(span.last, ranks_[place].completed_end);
  }
  return span;
}

} // namespace mc2::executor::lanes
