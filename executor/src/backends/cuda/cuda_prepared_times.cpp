#include <algorithm>

#include "backends/cuda/cuda_prepared.hpp"
#include "run_mode.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::Lane;

/// Whether the next stage has another length.
bool ends_length(const std::vector<Stage>& stages, std::size_t stage) {
  return stage + 1 < stages.size() && stages[stage].row_count != stages[stage + 1].row_count;
}

std::chrono::nanoseconds between(const Event& start, const Event& end) {
  float milliseconds = 0;
  MC2_CUDA(cudaEventElapsedTime(&milliseconds, start.get(), end.get()));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6));
}

} // namespace

bool CudaPrepared::stamps_lengths(RunMode mode) const noexcept {
  if (variant_.stores_tiles) return false; // each lane does all blocks at once
  return mode == RunMode::ComputeOnly || mode == RunMode::CommunicationOnly;
}

void CudaPrepared::read_times(int rank, RunMode mode, bool has_stages) {
  RankState& state = state_of(rank);
  RankTimes& times = record_.ranks[static_cast<std::size_t>(rank)];
  const auto read = [&](const StageEvents& events, bool is_timed) {
    if (!is_timed) return StageTime{};
    return StageTime{between(state.begin, events.start), between(state.begin, events.end)};
  };
  for (std::size_t i = 0; i < list_.stages.size(); ++i) {
    times.compute[i] = read(state.compute[i], has_stages);
    times.communication[i] = read(state.communication[i], has_stages);
  }
  times.local = read(state.local, has_stages && state.local_gemm && mode != RunMode::Serial);
  state.elapsed = between(state.begin, state.finish);
  if (has_stages || !times_lanes(mode)) return;
  if (runs_lane(mode, Lane::Compute)) {
    if (state.local_gemm) times.local.end = between(state.begin, state.local.end);
    share_lane_time(Lane::Compute, mode, times.local.end, rank);
  }
  if (runs_lane(mode, Lane::Communication)) {
    share_lane_time(Lane::Communication, mode, {}, rank);
  }
}

/// Whether the lane's graph takes the time when the stage is done: where the blocks' length changes, and where one
/// kernel has carried all so far.
bool CudaPrepared::is_stamped(Lane lane, RunMode mode, std::size_t stage) const noexcept {
  if (!stamps_lengths(mode) || stage + 1 == list_.stages.size()) return false;
  const std::size_t span = lane == Lane::Communication ? spanned(mode, RunDetail::Makespan) : 0;
  if (stage + 1 <= span) return stage + 1 == span;
  return ends_length(list_.stages, stage);
}

/// Gives every stage of a lane that never waited its part of the lane's time, by rows, between the times that were
/// taken.
void CudaPrepared::share_lane_time(Lane lane, RunMode mode, std::chrono::nanoseconds start, int rank) {
  const RankState& state = state_of(rank);
  const bool is_compute = lane == Lane::Compute;
  const auto& events = is_compute ? state.compute : state.communication;
  RankTimes& shared = record_.ranks[static_cast<std::size_t>(rank)];
  std::vector<StageTime>& times = is_compute ? shared.compute : shared.communication;
  const auto end = between(state.begin, is_compute ? state.compute_end : state.communication_end);
  std::size_t first = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bool is_last = i + 1 == times.size();
    if (!is_last && !is_stamped(lane, mode, i)) continue;
    const auto stop = is_last ? end : between(state.begin, events[i].end);
    const double rows =
        static_cast<double>(list_.stages[i].first_row + list_.stages[i].row_count - list_.stages[first].first_row);
    for (std::int64_t done = 0; first <= i; ++first) {
      const auto at = [&](std::int64_t count) {
        const double share = static_cast<double>(count) / rows;
        return start +
               std::chrono::nanoseconds(static_cast<std::int64_t>(static_cast<double>((stop - start).count()) * share));
      };
      times[first] = {at(done), at(done + list_.stages[first].row_count)};
      done += list_.stages[first].row_count;
    }
    start = stop;
  }
}

/// Ranks begin together and the slowest counts. All on the devices' clocks: launching and waking are the host's.
void CudaPrepared::finish_record(bool has_stages) {
  auto last = std::ranges::max_element(ranks_, {}, &RankState::elapsed)->elapsed;
  record_.wall = std::chrono::nanoseconds(communicator_.maximum(last.count()));
  record_.makespan = record_.wall;
  communicator_.gather_times(record_.ranks);
  if (!has_stages) return;
  auto first = std::chrono::nanoseconds::max();
  last = std::chrono::nanoseconds{0};
  const auto count = [&](const StageTime& time) {
    if (time == StageTime{}) return; // a lane that did not run
    first = std::min(first, time.start);
    last = std::max(last, time.end);
  };
  for (const RankTimes& rank : record_.ranks) {
    std::ranges::for_each(rank.compute, count);
    std::ranges::for_each(rank.communication, count);
    count(rank.local);
  }
  record_.makespan = last - first;
}

} // namespace mc2::executor::cuda
