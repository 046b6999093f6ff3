#include "backends/host/transports/pull_schedule.hpp"

#include <algorithm>
#include <limits>

namespace mc2::executor::host {

PullSchedule::PullSchedule(int world_size) : world_size_(world_size) {
  const auto count = static_cast<std::size_t>(world_size);
  state_ = {0, std::vector<Pull>(count), std::vector<int>(count)};
  scratch_ = state_;
  piece_ns_.assign(count, std::vector<double>(count));
}

void PullSchedule::reset() noexcept {
  state_.now_ns = 0;
  std::ranges::fill(state_.pulls, Pull{});
}

void PullSchedule::post(int rank, double start_ns, std::span<const double> piece_ns, lanes::PeerOrder order) noexcept {
  std::ranges::copy(piece_ns, piece_ns_[static_cast<std::size_t>(rank)].begin());
  Pull& pull = state_.pulls[static_cast<std::size_t>(rank)];
  pull = {.start_ns = start_ns, .left_ns = 0, .end_ns = start_ns, .order = order, .piece_count = world_size_ - 1};
  pull.left_ns = present_piece_ns(pull, rank);
  double missed_ns = state_.now_ns - start_ns;
  if (missed_ns <= 0) return;
  while (pull.piece_count > 0 && missed_ns >= pull.left_ns) {
    missed_ns -= pull.left_ns;
    pull.end_ns += pull.left_ns;
    if (--pull.piece_count > 0) pull.left_ns = present_piece_ns(pull, rank);
  }
  if (pull.piece_count > 0) pull.left_ns -= missed_ns;
}

double PullSchedule::projected_end_ns(int rank) {
  scratch_.now_ns = state_.now_ns;
  std::ranges::copy(state_.pulls, scratch_.pulls.begin());
  const Pull& pull = scratch_.pulls[static_cast<std::size_t>(rank)];
  while (pull.piece_count > 0 && step(scratch_, std::numeric_limits<double>::infinity())) {
  }
  return pull.end_ns;
}

bool PullSchedule::is_finished_at(int rank, double time_ns) noexcept {
  while (step(state_, time_ns)) {
  }
  return state_.pulls[static_cast<std::size_t>(rank)].piece_count == 0;
}

double PullSchedule::present_piece_ns(const Pull& pull, int rank) const noexcept {
  return piece_ns_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(source_of(pull, rank))];
}

int PullSchedule::source_of(const Pull& pull, int rank) const noexcept {
  return lanes::peer_at(pull.order, rank, world_size_, world_size_ - 1 - pull.piece_count);
}

double PullSchedule::next_event_ns(const State& state, int rank) const noexcept {
  const Pull& pull = state.pulls[static_cast<std::size_t>(rank)];
  if (pull.piece_count == 0) return std::numeric_limits<double>::infinity();
  if (pull.start_ns > state.now_ns) return pull.start_ns;
  return state.now_ns + pull.left_ns * state.load[static_cast<std::size_t>(source_of(pull, rank))];
}

void PullSchedule::count_load(State& state) const noexcept {
  std::ranges::fill(state.load, 0);
  for (int rank = 0; rank < world_size_; ++rank) {
    const Pull& pull = state.pulls[static_cast<std::size_t>(rank)];
    if (pull.piece_count > 0 && pull.start_ns <= state.now_ns)
      ++state.load[static_cast<std::size_t>(source_of(pull, rank))];
  }
}

void PullSchedule::pass(State& state, double until_ns) const noexcept {
  for (int rank = 0; rank < world_size_; ++rank) {
    Pull& pull = state.pulls[static_cast<std::size_t>(rank)];
    if (pull.piece_count == 0 || pull.start_ns > state.now_ns) continue;
    if (next_event_ns(state, rank) > until_ns) {
      pull.left_ns -= (until_ns - state.now_ns) / state.load[static_cast<std::size_t>(source_of(pull, rank))];
      continue;
    }
    if (--pull.piece_count == 0) {
      pull.end_ns = until_ns;
    } else {
      pull.left_ns = present_piece_ns(pull, rank);
    }
  }
  state.now_ns = until_ns;
}

bool PullSchedule::step(State& state, double limit_ns) const noexcept {
  if (limit_ns < state.now_ns) return false;
  count_load(state);
  double next_ns = std::numeric_limits<double>::infinity();
  for (int rank = 0; rank < world_size_; ++rank) next_ns = std::min(next_ns, next_event_ns(state, rank));
  pass(state, std::min(next_ns, limit_ns));
  return next_ns <= limit_ns;
}

} // namespace mc2::executor::host
