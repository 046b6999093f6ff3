#include "tune/turns.hpp"

#include "mc2/planner/planner.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

constexpr int kWarmups = 1;
constexpr int kLeastRounds = 2, kMostRounds = 7;

} // namespace

Result<std::size_t> prepare_blocks(Bench& bench, const planner::Cut& cut, const planner::Variant& variant) {
  MC2_ASSIGN(const auto plan, planner::unpredicted_plan(bench.op(), bench.fingerprint(), variant, cut));
  return bench.prepare(plan);
}

Result<std::vector<double>> time_in_turn(Bench& bench, std::span<const std::size_t> prepared, RunPart part,
                                         std::chrono::steady_clock::time_point deadline, const TuneHooks& hooks) {
  std::vector<std::vector<double>> times(prepared.size());
  for (int round = -kWarmups; round < kMostRounds && (round < kLeastRounds || bench.now() < deadline); ++round)
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (is_cancelled(hooks)) return Error{ErrorCode::Cancelled, "", "interrupted"};
      const double us = bench.time_us(prepared[i], part);
      if (round >= 0) times[i].push_back(us);
    }
  std::vector<double> medians;
  for (const auto& one : times) medians.push_back(median(one));
  return medians;
}

Result<std::vector<double>> time_in_turn(Bench& bench, const planner::Cut& cut, RunPart part,
                                         std::chrono::steady_clock::time_point deadline, const TuneHooks& hooks) {
  std::vector<std::size_t> prepared;
  for (const planner::Variant& variant : bench.variants()) {
    MC2_ASSIGN(const auto ready, prepare_blocks(bench, cut, variant));
    prepared.push_back(ready);
  }
  return time_in_turn(bench, prepared, part, deadline, hooks);
}

} // namespace mc2::profiler
