#include "active_profile.hpp"

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "mc2/profiler/statistics.hpp"
#include "render.hpp"
#include "terminal.hpp"

namespace mc2::cli {
namespace {

using planner::Context;
using planner::Sample;

profiler::ActiveCase case_of(const Sample& sample) {
  using profiler::ActiveTarget;
  if (sample.context == Context::CoRun) return {ActiveTarget::BothLanes, sample.block_rows};
  const bool is_matmul = sample.component == planner::Component::Matmul;
  return {is_matmul ? ActiveTarget::Matmul : ActiveTarget::Collective, sample.block_rows};
}

/// A pair is watched through its matmul, as the sweep does.
bool is_watched(const Sample& sample) {
  return sample.context == Context::Alone || sample.component == planner::Component::Matmul;
}

profiler::CaseSummary summarise(const profiler::ActiveCase& one, const std::vector<Sample>& samples) {
  std::vector<double> times, ordinary;
  for (const Sample& sample : samples) {
    times.push_back(to_us(sample.time));
    if (!sample.is_outlier) ordinary.push_back(times.back());
  }
  profiler::CaseSummary summary;
  summary.name = one.text();
  summary.sample_count = static_cast<int>(times.size());
  summary.outlier_count = static_cast<int>(times.size() - ordinary.size());
  summary.low_quantile_us = profiler::quantile(times, profiler::StoppingOptions{}.quantile);
  summary.median_us = profiler::quantile(times, 0.5);
  summary.p95_us = profiler::quantile(times, 0.95);
  summary.noise_ratio = profiler::relative_deviation(ordinary);
  summary.stop_reason = "chosen " + std::to_string(times.size()) + (times.size() == 1 ? " time" : " times");
  return summary;
}

profiler::SweepSummary as_sweep(profiler::ActiveSummary active, const std::string& variant) {
  std::map<profiler::ActiveCase, std::vector<Sample>> groups;
  for (const Sample& sample : active.samples)
    if (sample.variant == variant && is_watched(sample)) groups[case_of(sample)].push_back(sample);
  profiler::SweepSummary summary;
  for (const auto& [one, samples] : groups) summary.cases.push_back(summarise(one, samples));
  summary.samples = std::move(active.samples);
  summary.round_count = static_cast<int>(active.rounds.size());
  summary.termination = std::to_string(active.measurement_count) + " measurements; stopped: " + active.termination;
  return summary;
}

profiler::ActiveOptions options_of(const Workbench& bench, const ProfileSettings& settings) {
  profiler::ActiveOptions options;
  options.question.op = bench.op();
  options.question.plan = settings.plan;
  options.question.variant = bench.default_variant().name;
  options.question.sweep_alignment = settings.alignment;
  options.question.tolerated_regret = settings.active->tolerated_regret;
  options.question.seed = settings.sweep.seed;
  options.max_measurement_count = settings.active->max_measurement_count;
  options.budget = settings.sweep.budget;
  return options;
}

} // namespace

Result<profiler::SweepSummary> profile_actively(Workbench& bench, const ProfileSettings& settings,
                                                store::Store& store) {
  const std::string label = "profile " + bench.op().text();
  std::vector<Sample> earlier;
  if (auto kept = store.find_profile(bench.op(), bench.fingerprint())) earlier = std::move(kept).value().samples;
  std::optional<Error> store_error;
  auto progress = std::make_unique<ProgressLine>(label);
  profiler::ActiveHooks hooks;
  hooks.make_case = [&](const profiler::ActiveCase& one) { return make_sweep_case(bench, one); };
  hooks.now = [] { return std::chrono::steady_clock::now(); };
  hooks.on_progress = [&](const profiler::ActiveProgress& p) {
    progress->update(static_cast<double>(p.measurement_count) / p.max_measurement_count, p.remaining,
                     std::to_string(p.measurement_count) + " of at most " + std::to_string(p.max_measurement_count) +
                         " measurements" + (p.regret < 0 ? "" : ", expected regret " + percent_text(p.regret)));
  };
  hooks.on_round = [&](const profiler::ActiveRound& round) {
    progress = std::make_unique<ProgressLine>(label); // clears the line
    std::cerr << label << ": " << round.text() << "\n";
  };
  hooks.on_samples = [&](std::span<const Sample> samples) {
    auto kept = store.append_samples(bench.op(), bench.fingerprint(), samples, utc_now());
    if (!kept && !store_error) store_error = kept.error();
  };
  hooks.is_cancelled = [&] { return is_interrupted() || store_error.has_value(); };
  auto summary = profiler::run_active_sweep(options_of(bench, settings), hooks, bench.fingerprint(), earlier);
  progress.reset();
  if (store_error) return *store_error;
  if (!summary) return summary.error();
  auto kept = store.replace_samples(bench.op(), bench.fingerprint(), summary.value().samples, utc_now());
  if (!kept) return kept.error();
  std::cerr << label << ": stopped: " << summary.value().termination << "\n";
  return as_sweep(std::move(summary).value(), bench.default_variant().name);
}

} // namespace mc2::cli
