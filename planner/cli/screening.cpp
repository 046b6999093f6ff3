#include "screening.hpp"

#include <algorithm>
#include <set>

#include "measure.hpp"
#include "terminal.hpp"

namespace mc2::cli {
namespace {

using executor::RunMode;

constexpr int kWarmups = 2;
constexpr int kRounds = 7;

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

/// Median wall time of every variant, which take turns. Errors: as Workbench::prepare; Cancelled.
Result<std::vector<double>> time_in_turn(Workbench& bench, const planner::Cut& cut, RunMode mode) {
  std::vector<std::vector<double>> times(bench.variants().size());
  for (int round = -kWarmups; round < kRounds; ++round)
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

Result<std::vector<VariantTrial>> run_trials(Workbench& bench, std::int64_t alignment) {
  std::vector<VariantTrial> trials(bench.variants().size());
  const auto cuts = trial_cuts(planner::traits_of(bench.op().kind).cut_axis_length(bench.op()), alignment);
  const auto add = [&](const planner::Cut& cut, RunMode mode) -> Result<void> {
    const auto times = time_in_turn(bench, cut, mode);
    if (!times) return times.error();
    for (std::size_t i = 0; i < trials.size(); ++i) trials[i].push_back(times.value()[i]);
    return {};
  };
  for (const auto& cut : cuts)
    if (auto timed = add(cut, RunMode::CommunicationOnly); !timed) return timed.error();
  if (auto timed = add(cuts[std::min<std::size_t>(1, cuts.size() - 1)], RunMode::Fused); !timed) return timed.error();
  return trials;
}

std::set<std::string> sampled_variants(const Workbench& bench, const store::Store& store) {
  std::set<std::string> names;
  if (const auto kept = store.find_profile(bench.op(), bench.fingerprint()))
    for (const auto& sample : kept.value().samples) names.insert(sample.variant);
  return names;
}

} // namespace

std::vector<bool> winners(std::span<const VariantTrial> trials) {
  std::vector<bool> result(trials.size());
  for (std::size_t cut = 0; cut < trials.front().size(); ++cut) {
    const auto best = std::ranges::min_element(trials, {}, [&](const VariantTrial& trial) { return trial[cut]; });
    result[static_cast<std::size_t>(best - trials.begin())] = true;
  }
  return result;
}

Result<std::string> screen_variants(Workbench& bench, std::int64_t alignment, const store::Store& store) {
  if (bench.variants().size() < 2 || !bench.variants_share_matmul()) return std::string{};
  const auto trials = run_trials(bench, alignment);
  if (!trials) return trials.error();
  const auto wins = winners(trials.value());
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
  return "slower than others at every size in a few runs, and left out: " + left_out + "; --variant measures one anyway";
}

} // namespace mc2::cli
