#include "tune/screening.hpp"

#include <algorithm>
#include <chrono>
#include <ranges>
#include <set>

#include "mc2/planner/units.hpp"
#include "tune/turns.hpp"

namespace mc2::profiler {
namespace {

using Clock = std::chrono::steady_clock;

/// Screening takes at most 1 / kBudgetShare of the budget for profiling.
constexpr int kBudgetShare = 4;
/// Variants within this factor of the fastest count as equal: a few runs on a busy machine cannot tell finer.
constexpr double kTie = 1.03;

struct Trial {
  planner::Cut cut;
  RunPart part = RunPart::Fused;
};

/// The uncut axis, and equal blocks of about a quarter and a sixteenth of it.
std::vector<planner::Cut> trial_cuts(const planner::OpSpec& op, std::int64_t alignment) {
  const std::int64_t rows = planner::traits_of(op.kind).cut_axis_length(op);
  std::vector<planner::Cut> cuts{planner::uncut(op)};
  for (const std::int64_t count : {4, 16}) {
    const std::int64_t length = planner::align_up(rows / count, alignment);
    if (length < 1 || length >= rows) continue;
    planner::Cut cut = planner::equal_blocks(op, length);
    if (cut != cuts.back()) cuts.push_back(std::move(cut));
  }
  return cuts;
}

/// The fused operator comes first, because it is the purpose of a variant.
std::vector<Trial> make_trials(const planner::OpSpec& op, std::int64_t alignment) {
  const auto cuts = trial_cuts(op, alignment);
  std::vector<Trial> trials{{cuts[std::min<std::size_t>(1, cuts.size() - 1)], RunPart::Fused}};
  for (const auto& cut : cuts) trials.push_back({cut, RunPart::Communication});
  return trials;
}

Result<std::vector<VariantTimes>> run_trials(Bench& bench, std::int64_t alignment, Clock::duration budget,
                                             const TuneHooks& hooks) {
  std::vector<VariantTimes> result(bench.variants().size());
  const auto trials = make_trials(bench.op(), alignment);
  const auto start = bench.now();
  for (std::size_t done = 0; done < trials.size(); ++done) {
    const auto deadline = start + budget * (done + 1) / trials.size();
    MC2_ASSIGN(const auto times, time_in_turn(bench, trials[done].cut, trials[done].part, deadline, hooks));
    for (std::size_t i = 0; i < result.size(); ++i) result[i].push_back(times[i]);
  }
  return result;
}

} // namespace

std::vector<bool> fastest_variants(std::span<const VariantTimes> times) {
  std::vector<bool> result(times.size());
  for (std::size_t trial = 0; trial < times.front().size(); ++trial) {
    const auto best = std::ranges::min_element(times, {}, [&](const VariantTimes& one) { return one[trial]; });
    const auto is_as_good = [&](std::size_t i) { return result[i] && times[i][trial] <= kTie * (*best)[trial]; };
    if (std::ranges::none_of(std::views::iota(std::size_t{0}, times.size()), is_as_good))
      result[static_cast<std::size_t>(best - times.begin())] = true;
  }
  return result;
}

Result<std::string> screen_variants(Bench& bench, const ProfileSettings& settings,
                                    std::span<const planner::Sample> earlier, const TuneHooks& hooks) {
  if (bench.variants().size() < 2 || !bench.variants_share_matmul()) return std::string{};
  MC2_ASSIGN(const auto times,
             run_trials(bench, settings.plan->alignment, settings.sweep.budget / kBudgetShare, hooks));
  const auto wins = fastest_variants(times);
  std::set<std::string> sampled;
  for (const auto& sample : earlier) sampled.insert(sample.variant);
  std::vector<planner::Variant> kept;
  std::string left_out;
  for (std::size_t i = 0; i < wins.size(); ++i) {
    const planner::Variant& variant = bench.variants()[i];
    if (wins[i] || sampled.contains(variant.text()))
      kept.push_back(variant);
    else
      left_out += (left_out.empty() ? "" : ", ") + variant.text();
  }
  bench.keep_variants(std::move(kept));
  if (left_out.empty()) return left_out;
  return "left out, because a few runs were not faster than other variants at any size: " + left_out +
         "; --variant measures such a variant anyway";
}

} // namespace mc2::profiler
