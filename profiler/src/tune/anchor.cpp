#include "mc2/profiler/anchor.hpp"

#include <algorithm>

#include "mc2/planner/cutting.hpp"
#include "mc2/profiler/statistics.hpp"
#include "tune/turns.hpp"

namespace mc2::profiler {
namespace {

constexpr int kWarmUpRuns = 2;

/// One part of one variant with its times so far, in us.
struct PartTimes {
  std::size_t prepared;
  RunPart part;
  std::vector<double> us = {};
  double total_us = 0;

  [[nodiscard]] bool is_enough(const AnchorSettings& settings) const {
    return std::ssize(us) >= settings.least_runs && total_us >= planner::to_us(settings.least_time);
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

struct VariantParts {
  planner::Variant variant;
  PartTimes compute, communication;
};

Result<std::vector<VariantParts>> prepare_parts(Bench& bench, const planner::CostModel& model) {
  std::vector<VariantParts> result;
  for (const auto& variant : bench.variants()) {
    if (model.cost_of(variant) == nullptr) continue;
    MC2_ASSIGN(const auto uncut, prepare_blocks(bench, planner::uncut(bench.op()), variant));
    result.push_back({variant, {uncut, RunPart::Compute}, {uncut, RunPart::Communication}});
  }
  if (!result.empty()) return result;
  return Error{ErrorCode::NotFound, "anchor", "none of the model's variants runs here, so nothing can be timed"};
}

} // namespace

Result<std::vector<planner::UncutTimes>> time_uncut_parts(Bench& bench, const planner::CostModel& model,
                                                          const AnchorSettings& settings, const TuneHooks& hooks) {
  MC2_ASSIGN(auto variants, prepare_parts(bench, model));
  std::vector<PartTimes*> parts;
  for (auto& one : variants) parts.insert(parts.end(), {&one.compute, &one.communication});
  for (int warm_up = 0; warm_up < kWarmUpRuns; ++warm_up)
    for (const PartTimes* part : parts) static_cast<void>(bench.time_us(part->prepared, part->part));
  const auto is_unfinished = [&](const PartTimes* part) { return !part->is_enough(settings); };
  while (std::ranges::any_of(parts, is_unfinished))
    for (PartTimes* part : parts) {
      if (is_cancelled(hooks)) return Error{ErrorCode::Cancelled, "anchor", "interrupted"};
      if (is_unfinished(part)) part->run(bench);
    }
  std::vector<planner::UncutTimes> result;
  for (const auto& one : variants)
    result.push_back({one.variant.text(), median(one.compute.us), median(one.communication.us), one.compute.interval(),
                      one.communication.interval()});
  return result;
}

} // namespace mc2::profiler
