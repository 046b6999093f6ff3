#include "mc2/profiler/anchor.hpp"

#include <algorithm>
#include <cmath>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/profiler/statistics.hpp"
#include "tune/turns.hpp"

namespace mc2::profiler {
namespace {

constexpr int kWarmUpRuns = 2;
/// Each lane runs at least kFewestRuns times and for kShortestUs, then until its median is known within kKnownInterval
/// (half-width of its 90 % interval, relative) or kLongestUs are over.
constexpr int kFewestRuns = 5;
constexpr double kShortestUs = 50e3, kLongestUs = 400e3, kKnownInterval = 0.02;

/// One lane of one variant with its times so far, in us.
struct LaneRuns {
  std::size_t prepared;
  RunPart part;
  double wanted_us = kShortestUs; ///< total after which the interval is looked at
  std::vector<double> us = {};
  double total_us = 0;

  /// Doubles the time that is wanted as long as the median is not known.
  [[nodiscard]] bool is_enough() {
    if (std::ssize(us) < kFewestRuns || total_us < wanted_us) return false;
    if (wanted_us >= kLongestUs || interval() <= kKnownInterval) return true;
    wanted_us = std::min(2 * std::max(wanted_us, total_us), kLongestUs);
    return total_us >= wanted_us;
  }
  /// Relative distance from the median to the farther end of its 90 % interval.
  [[nodiscard]] double interval() const {
    const Interval found = quantile_interval(us, 0.5, 0.9);
    return std::max(found.high - found.value, found.value - found.low) / found.value;
  }
  void run(Bench& bench) {
    us.push_back(bench.time_us(prepared, part));
    total_us += us.back();
  }
};

struct VariantRuns {
  planner::Variant variant;
  planner::Cut cut;
  LaneRuns compute, communication;
};

constexpr std::int64_t kMostBlocks = 64;

/// The fewest equal blocks that lie within what both curves were measured for; uncut if these are too many.
planner::Cut measured_blocks(const planner::OpSpec& op, const planner::VariantCost& cost, std::int64_t alignment) {
  const std::int64_t rows = planner::cut_axis_length(op);
  const auto bytes = static_cast<double>(planner::traits_of(op.kind).message_bytes_per_unit(op));
  double longest = static_cast<double>(rows);
  for (const auto& [last_x, x_of_row] :
       {std::pair(cost.compute.curve.valid_max_x, 1.0), {cost.communication.curve.valid_max_x, bytes}})
    if (last_x >= x_of_row) longest = std::min(longest, last_x / x_of_row);
  const std::int64_t count = planner::ceil_div(rows, std::llround(longest - 0.49)); // bytes round to a whole row
  if (count > kMostBlocks) return planner::uncut(op);
  const std::int64_t length = planner::align_up(planner::ceil_div(rows, count), alignment);
  return planner::equal_blocks(op, std::min(rows, length));
}

Result<std::vector<VariantRuns>> prepare_lanes(Bench& bench, const planner::CostModel& model) {
  const std::int64_t alignment = planner::default_options_on(bench.fingerprint()).alignment;
  std::vector<VariantRuns> result;
  for (const auto& variant : bench.variants()) {
    const planner::VariantCost* cost = model.cost_of(variant);
    if (cost == nullptr) continue;
    const planner::Cut cut = measured_blocks(bench.op(), *cost, alignment);
    MC2_ASSIGN(const auto prepared, prepare_blocks(bench, cut, variant));
    result.push_back({variant, cut, {prepared, RunPart::Compute}, {prepared, RunPart::Communication}});
  }
  if (!result.empty()) return result;
  return Error{ErrorCode::NotFound, "anchor", "none of the model's variants runs here, so nothing can be timed"};
}

} // namespace

Result<std::vector<planner::TimedLanes>> time_lanes(Bench& bench, const planner::CostModel& model,
                                                    const TuneHooks& hooks) {
  MC2_ASSIGN(auto variants, prepare_lanes(bench, model));
  std::vector<LaneRuns*> lanes;
  for (auto& one : variants) lanes.insert(lanes.end(), {&one.compute, &one.communication});
  for (int warm_up = 0; warm_up < kWarmUpRuns; ++warm_up)
    for (const LaneRuns* lane : lanes) static_cast<void>(bench.time_us(lane->prepared, lane->part));
  const auto is_unfinished = [&](LaneRuns* lane) { return !lane->is_enough(); };
  while (std::ranges::any_of(lanes, is_unfinished))
    for (LaneRuns* lane : lanes) {
      if (is_cancelled(hooks)) return Error{ErrorCode::Cancelled, "anchor", "interrupted"};
      if (is_unfinished(lane)) lane->run(bench);
    }
  std::vector<planner::TimedLanes> result;
  for (const auto& one : variants)
    result.push_back({one.variant.text(), median(one.compute.us), median(one.communication.us), one.compute.interval(),
                      one.communication.interval(), one.cut});
  return result;
}

} // namespace mc2::profiler
