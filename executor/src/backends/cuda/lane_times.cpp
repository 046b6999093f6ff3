#include "backends/cuda/lane_times.hpp"

#include <algorithm>

namespace mc2::executor::cuda {
namespace {

using planner::Lane;

/// Whether the next stage has another number of rows.
bool ends_length(const std::vector<Stage>& stages, std::size_t stage) {
  return stage + 1 < stages.size() && stages[stage].row_count != stages[stage + 1].row_count;
}

std::chrono::nanoseconds between(const Event& start, const Event& end) {
  float milliseconds = 0;
  MC2_CUDA(cudaEventElapsedTime(&milliseconds, start.get(), end.get()));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6));
}

/// Whether a graph of this mode takes times between stages.
bool stamps_lengths(const BoundPlan& plan, RunMode mode) noexcept {
  if (plan.variant.stores_tiles) return false; // because each lane does all blocks at once
  return mode == RunMode::ComputeOnly || mode == RunMode::CommunicationOnly;
}

/// Divides the time of a lane that never waits among its stages, in proportion to their rows, between the times that
/// were taken.
void share_lane_time(const BoundPlan& plan, Lane lane, RunMode mode, std::chrono::nanoseconds start,
                     RankTimes& shared) {
  const RankState& state = plan.state_of(shared.rank);
  const bool is_compute = lane == Lane::Compute;
  const auto& events = is_compute ? state.compute : state.communication;
  std::vector<StageTime>& times = is_compute ? shared.compute : shared.communication;
  const auto end = between(state.begin, is_compute ? state.compute_end : state.communication_end);
  std::size_t first = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bool is_last = i + 1 == times.size();
    if (!is_last && !is_stamped(plan, lane, mode, i)) continue;
    const auto stop = is_last ? end : between(state.begin, events[i].end);
    const double rows = static_cast<double>(plan.list.stages[i].first_row + plan.list.stages[i].row_count -
                                            plan.list.stages[first].first_row);
    for (std::int64_t done = 0; first <= i; ++first) {
      const auto at = [&](std::int64_t count) {
        const double share = static_cast<double>(count) / rows;
        return start +
               std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>((stop - start).count()) * share));
      };
      times[first] = {at(done), at(done + plan.list.stages[first].row_count)};
      done += plan.list.stages[first].row_count;
    }
    start = stop;
  }
}

/// Whether the matmuls of the own rows and of the other ranks' rows, in equal pieces, ran side by side on the two
/// streams. They do if the device has room for both. In a fused run they do not: the few own rows end before the other
/// rows arrive.
bool ran_side_by_side(const BoundPlan& plan, const RankState& state, RunMode mode, std::chrono::nanoseconds local_end) {
  if (mode != RunMode::ComputeOnly || !plan.gathers_first || !plan.uses_two_streams() || plan.row_runs) return false;
  const std::chrono::nanoseconds others = between(state.begin, state.compute_end) - local_end;
  return 2 * others < (plan.list.op.world_size - 1) * local_end;
}

/// Sets the times of the stages as if the other ranks' rows had been multiplied after the own rows: at the own rows'
/// speed, but in no more time than the whole lane took.
void follow_own_rows(const BoundPlan& plan, const RankState& state, RankTimes& times) {
  const Stage& last = plan.list.stages.back();
  const double own_rows = static_cast<double>(last.first_row + last.row_count);
  const auto others =
      std::min(times.local.end * (plan.list.op.world_size - 1), between(state.begin, state.compute_end));
  const double ns_per_row = static_cast<double>(others.count()) / own_rows;
  const auto at = [&](std::int64_t row) {
    return times.local.end + std::chrono::nanoseconds(static_cast<std::int64_t>(ns_per_row * static_cast<double>(row)));
  };
  for (std::size_t i = 0; i < times.compute.size(); ++i) {
    const Stage& stage = plan.list.stages[i];
    times.compute[i] = {at(stage.first_row), at(stage.first_row + stage.row_count)};
  }
}

} // namespace

bool is_stamped(const BoundPlan& plan, Lane lane, RunMode mode, std::size_t stage) noexcept {
  if (!stamps_lengths(plan, mode) || stage + 1 == plan.list.stages.size()) return false;
  const std::size_t span = lane == Lane::Communication ? plan.spanned(mode, RunDetail::Makespan) : 0;
  if (stage + 1 <= span) return stage + 1 == span;
  return ends_length(plan.list.stages, stage);
}

void read_times(BoundPlan& plan, int rank, RunMode mode, bool has_stages, RankTimes& times) {
  RankState& state = plan.state_of(rank);
  const auto read = [&](const StageEvents& events, bool is_timed) {
    if (!is_timed) return StageTime{};
    return StageTime{between(state.begin, events.start), between(state.begin, events.end)};
  };
  for (std::size_t i = 0; i < plan.list.stages.size(); ++i) {
    times.compute[i] = read(state.compute[i], has_stages);
    times.communication[i] = read(state.communication[i], has_stages);
  }
  times.local = read(state.local, has_stages && plan.gathers_first && mode != RunMode::Serial);
  state.elapsed = between(state.begin, state.finish);
  if (has_stages || !times_lanes(mode)) return;
  if (runs_lane(mode, Lane::Compute)) {
    if (plan.gathers_first) times.local.end = between(state.begin, state.local.end);
    if (ran_side_by_side(plan, state, mode, times.local.end))
      follow_own_rows(plan, state, times);
    else
      share_lane_time(plan, Lane::Compute, mode, times.local.end, times);
  }
  if (runs_lane(mode, Lane::Communication)) {
    share_lane_time(plan, Lane::Communication, mode, {}, times);
  }
}

/// Ranks begin together, and the slowest one counts. All times are on the devices' clocks; the host's launching and
/// waking are not included.
void finish_record(BoundPlan& plan, bool has_stages, RunRecord& record) {
  auto last = std::ranges::max_element(plan.ranks, {}, &RankState::elapsed)->elapsed;
  record.wall = std::chrono::nanoseconds(plan.communicator.maximum(last.count()));
  record.makespan = record.wall;
  plan.communicator.gather_times(record.ranks);
  if (!has_stages) return;
  auto first = std::chrono::nanoseconds::max();
  last = std::chrono::nanoseconds{0};
  const auto count = [&](const StageTime& time) {
    if (time == StageTime{}) return; // the lane did not run
    first = std::min(first, time.start);
    last = std::max(last, time.end);
  };
  for (const RankTimes& rank : record.ranks) {
    std::ranges::for_each(rank.compute, count);
    std::ranges::for_each(rank.communication, count);
    count(rank.local);
  }
  record.makespan = last - first;
}

} // namespace mc2::executor::cuda
