#include "mc2/planner/pipeline.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace mc2::planner {
namespace {

/// One lane of the running pipeline.
struct LaneState {
  std::span<const double> durations_us;
  double slowdown = 1;
  std::size_t next = 0;    ///< block being worked on, or the next one to start
  double remaining_us = 0; ///< work left in it, in undisturbed time
  bool is_busy = false;

  [[nodiscard]] bool is_done() const noexcept { return next == durations_us.size(); }
  void start() noexcept {
    remaining_us = durations_us[next];
    is_busy = true;
  }
};

struct TimelineRecorder {
  Timeline& timeline;
  std::vector<Span>& lane(int index) { return index == 0 ? timeline.first : timeline.second; }
  void on_start(int index, std::size_t block, double now_us) { lane(index)[block].start_us = now_us; }
  void on_end(int index, std::size_t block, double now_us) { lane(index)[block].end_us = now_us; }
  void on_overlap(double us) { timeline.overlap_us += us; }
};

void start_ready(LaneState& first, LaneState& second, double now_us, TimelineRecorder& recorder) {
  if (!first.is_busy && !first.is_done()) {
    first.start();
    recorder.on_start(0, first.next, now_us);
  }
  if (!second.is_busy && !second.is_done() && second.next < first.next) {
    second.start();
    recorder.on_start(1, second.next, now_us);
  }
}

/// Advances a busy lane by `elapsed_us` of wall time; `is_end` when this event is its block's end.
void advance(LaneState& lane, int index, double elapsed_us, double rate, bool is_end, double now_us,
             TimelineRecorder& recorder) {
  if (!lane.is_busy) return;
  lane.remaining_us = std::max(lane.remaining_us - elapsed_us * rate, 0.0);
  if (!is_end) return;
  recorder.on_end(index, lane.next, now_us);
  lane.is_busy = false;
  ++lane.next;
}

/// The slices of a block, from one entry for each block or one for all.
const Slices& slices_at(std::span<const Slices> slices, std::size_t block) {
  return slices.size() == 1 ? slices.front() : slices[block];
}

std::vector<double> sliced(std::span<const double> blocks_us, std::span<const Slices> slices) {
  std::vector<double> slices_us;
  for (std::size_t i = 0; i < blocks_us.size(); ++i)
    for (const double share : slices_at(slices, i).shares()) slices_us.push_back(blocks_us[i] * share);
  return slices_us;
}

std::vector<Span> merged(const std::vector<Span>& spans, std::span<const Slices> slices) {
  std::vector<Span> blocks;
  for (std::size_t first = 0; first < spans.size();) {
    const std::size_t end = first + slices_at(slices, blocks.size()).shares().size();
    blocks.push_back({spans[first].start_us, spans[end - 1].end_us});
    first = end;
  }
  return blocks;
}

double run_pipeline(std::span<const double> first_us, std::span<const double> second_us, const Slowdown& slowdown,
                    TimelineRecorder& recorder) {
  LaneState first{first_us, slowdown.first};
  LaneState second{second_us, slowdown.second};
  double now_us = 0;
  while (!second.is_done()) {
    start_ready(first, second, now_us, recorder);
    const bool both = first.is_busy && second.is_busy;
    const double first_factor = both ? first.slowdown : 1, second_factor = both ? second.slowdown : 1;
    constexpr double kNever = std::numeric_limits<double>::infinity();
    const double first_end = first.is_busy ? first.remaining_us * first_factor : kNever;
    const double second_end = second.is_busy ? second.remaining_us * second_factor : kNever;
    const double elapsed_us = std::min(first_end, second_end);
    now_us += elapsed_us;
    if (both) recorder.on_overlap(elapsed_us);
    advance(first, 0, elapsed_us, 1 / first_factor, first_end <= second_end, now_us, recorder);
    advance(second, 1, elapsed_us, 1 / second_factor, second_end <= first_end, now_us, recorder);
  }
  return now_us;
}

} // namespace

Timeline simulate(std::span<const double> first_us, std::span<const double> second_us, const Slowdown& slowdown,
                  const Slices& slices) {
  return simulate(first_us, second_us, slowdown, std::span(&slices, 1));
}

Timeline simulate(std::span<const double> first_us, std::span<const double> second_us, const Slowdown& slowdown,
                  std::span<const Slices> slices) {
  const auto first = sliced(first_us, slices), second = sliced(second_us, slices);
  Timeline timeline;
  timeline.first.resize(first.size());
  timeline.second.resize(second.size());
  TimelineRecorder recorder{timeline};
  timeline.makespan_us = run_pipeline(first, second, slowdown, recorder);
  timeline.first = merged(timeline.first, slices);
  timeline.second = merged(timeline.second, slices);
  return timeline;
}

double makespan_us(std::span<const double> first_us, std::span<const double> second_us, const Slowdown& slowdown,
                   const Slices& slices) noexcept {
  const Contention contention(slowdown);
  PipelineState state;
  for (std::size_t i = 0; i < first_us.size(); ++i) state.pass(first_us[i], second_us[i], contention, slices);
  return state.second_path_us;
}

} // namespace mc2::planner
