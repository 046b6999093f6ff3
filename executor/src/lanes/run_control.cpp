#include "lanes/run_control.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "texts.hpp"

namespace mc2::executor::lanes {

RunControl::RunControl(int world_size)
    : ready_(static_cast<std::size_t>(world_size)), progress_(2 * static_cast<std::size_t>(world_size)) {}

void RunControl::begin(RunMode mode, std::chrono::nanoseconds time_limit) {
  for (Signal& signal : ready_) signal.reset();
  for (Progress& lane : progress_) lane.stage_count.store(0, std::memory_order_relaxed);
  mode_ = mode;
  start_ = Clock::now();
  deadline_ = start_ + time_limit;
}

std::size_t RunControl::progress_index(int rank, planner::Lane lane) const noexcept {
  return static_cast<std::size_t>(rank) + (lane == planner::Lane::Compute ? 0 : ready_.size());
}

void RunControl::stage_finished(int rank, planner::Lane lane) noexcept {
  progress_[progress_index(rank, lane)].stage_count.fetch_add(1, std::memory_order_relaxed);
}

std::string RunControl::laggard() const {
  std::optional<std::uint32_t> least;
  std::string text;
  for (const auto lane : {planner::Lane::Compute, planner::Lane::Communication}) {
    if (!runs_lane(mode_, lane)) continue;
    for (int rank = 0; rank < static_cast<int>(ready_.size()); ++rank) {
      const std::uint32_t count = stage_count(rank, lane);
      if (least && count >= *least) continue;
      least = count;
      text = rank_text(rank) + "'s " + std::string(planner::to_string(lane)) + " lane had finished " +
             std::to_string(count) + " blocks";
    }
  }
  return text;
}

void RunControl::sleep_until(Clock::time_point time, int rank) const {
  // Waits for the abort signal, so that an abort ends the sleep. This is as exact as clock_nanosleep.
  if (aborted_.wait_at_least(1, std::min(time, deadline_)) == WaitResult::Aborted) throw RunAborted{};
  if (time > deadline_) throw deadline_error(rank_text(rank) + " waited for its modelled time to pass");
}

void RunControl::throw_if_aborted() const {
  if (aborted_.is_poisoned()) throw RunAborted{};
}

void RunControl::fail(const SystemError& failure) noexcept {
  if (failure_is_claimed_.test_and_set()) return;
  failure_.emplace(failure);
  aborted_.poison();
  for (Signal& signal : ready_) signal.poison();
}

SystemError deadline_error(const std::string& awaited) {
  return {"run", ETIMEDOUT, awaited + ", past the run's deadline; where the link is that slow, give a longer one"};
}

std::string awaited_piece(int rank, std::size_t block, int peer) {
  return rank_text(rank) + " waited for block " + std::to_string(block) + " of " + rank_text(peer);
}

} // namespace mc2::executor::lanes
