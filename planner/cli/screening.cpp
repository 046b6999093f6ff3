#include "screening.hpp"

#include <algorithm>
#include <chrono>
#include <ranges>
#include <set>

#include "terminal.hpp"

namespace mc2::cli {
namespace {

using executor::RunMode;

constexpr int kWarmups = 1;
constexpr int kLeastRounds = 2, kMostRounds = 7;
/// Of the budget for profiling.
constexpr int kBudgetShare = 4;
/// Variants this near to the fastest are as good: a few runs on a machine with other work tell no finer.
constexpr double kTie = 1.03;

using Clock = std::chrono::steady_clock;

struct Trial {
  planner::Cut cut;
  RunMode mode = RunMode::Fused;
};

/// Uncut, and equal blocks of about a quarter and a sixteenth of the cut axis.
std::vector<planner::Cut> trial_cuts(std::int64_t rows, std::int64_t alignment) {
  std::vector<planner::Cut> cuts{{{rows}}};
  for (const std::int64_t count : {4, 16}) {
    const std::int64_t length = (rows / count + alignment - 1) / alignment * alignment;
    if (length < 1 || length >= rows) continue;
    planner::Cut cut{std::vector<std::int64_t>(static_cast<std::size_t>(rows / length), length)};
    if (rows % length != 0) cut.block_rows.push_back(rows % length);
    if (cut != cuts.back()) cuts.push_back(std::move(cut));
  }
  return cuts;
}

/// The fused operator first: it is what a variant is wanted for.
std::vector<Trial> make_trials(const planner::OpSpec& op, std::int64_t alignment) {
  const auto cuts = trial_cuts(planner::traits_of(op.kind).cut_axis_length(op), alignment);
  std::vector<Trial> trials{{cuts[std::min<std::size_t>(1, cuts.size() - 1)], RunMode::Fused}};
  for (const auto& cut : cuts) trials.push_back({cut, RunMode::CommunicationOnly});
  return trials;
}

Result<std::vector<VariantTimes>> run_trials(Workbench& bench, std::int64_t alignment, Clock::duration budget) {
  std::vector<VariantTimes> result(bench.variants().size());
  const auto trials = make_trials(bench.op(), alignment);
  const auto start = Clock::now();
  for (std::size_t done = 0; done < trials.size(); ++done) {
    const auto times =
        time_in_turn(bench, trials[done].cut, trials[done].mode, start + budget * (done + 1) / trials.size());
    if (!times) return times.error();
    for (std::size_t i = 0; i < result.size(); ++i) result[i].push_back(times.value()[i]);
  }
  return result;
}

std::set<std::string> sampled_variants(const Workbench& bench, const store::Store& store) {
  std::set<std::string> names;
  if (const auto kept = store.find_profile(bench.op(), bench.fingerprint()))
    for (const auto& sample : kept.value().samples) names.insert(sample.variant);
  return names;
}

} // namespace

Result<std::vector<double>> time_in_turn(Workbench& bench, const planner::Cut& cut, RunMode mode,
                                         Clock::time_point deadline) {
  std::vector<std::vector<double>> times(bench.variants().size());
  for (int round = -kWarmups; round < kMostRounds && (round < kLeastRounds || Clock::now() < deadline); ++round)
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (is_interrupted()) return Error{ErrorCode::Cancelled, "", "interrupted"};
      auto prepared = bench.prepare(cut, bench.variants()[i]);
      if (!prepared) return prepared.error();
      const double us = to_us(prepared.value()->run(mode, executor::RunDetail::Makespan).wall);
      if (round >= 0) times[i].push_back(us);
    }
  std::vector<double> medians;
  for (const auto& one : times) medians.push_back(median(one));
  return medians;
}

std::vector<bool> winners(std::span<const VariantTimes> times) {
  std::vector<bool> result(times.size());
  for (std::size_t trial = 0; trial < times.front().size(); ++trial) {
    const auto best = std::ranges::min_element(times, {}, [&](const VariantTimes& one) { return one[trial]; });
    const auto is_as_good = [&](std::size_t i) { return result[i] && times[i][trial] <= kTie * (*best)[trial]; };
    if (std::ranges::none_of(std::views::iota(std::size_t{0}, times.size()), is_as_good))
      result[static_cast<std::size_t>(best - times.begin())] = true;
  }
  return result;
}

Result<std::string> screen_variants(Workbench& bench, const ProfileSettings& settings, const store::Store& store) {
  if (bench.variants().size() < 2 || !bench.variants_share_matmul()) return std::string{};
  const auto times = run_trials(bench, settings.alignment, settings.sweep.budget / kBudgetShare);
  if (!times) return times.error();
  const auto wins = winners(times.value());
  const auto sampled = sampled_variants(bench, store);
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
  return "not faster than others at any size in a few runs, and left out: " + left_out +
         "; --variant measures one anyway";
}

} // namespace mc2::cli
