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

profiler::CaseSummary summarise(const std::string& name, const std::vector<Sample>& samples) {
  std::vector<double> times, ordinary;
  for (const Sample& sample : samples) {
    times.push_back(to_us(sample.time));
    if (!sample.is_outlier) ordinary.push_back(times.back());
  }
  profiler::CaseSummary summary;
  summary.name = name;
  summary.sample_count = static_cast<int>(times.size());
  summary.outlier_count = static_cast<int>(times.size() - ordinary.size());
  summary.low_quantile_us = profiler::quantile(times, profiler::StoppingOptions{}.quantile);
  summary.median_us = profiler::quantile(times, 0.5);
  summary.p95_us = profiler::quantile(times, 0.95);
  summary.noise_ratio = profiler::relative_deviation(ordinary);
  summary.stop_reason = "chosen " + std::to_string(times.size()) + (times.size() == 1 ? " time" : " times");
  return summary;
}

/// What the active sweeps of the variants found, as one sweep.
void add(profiler::SweepSummary& sweep, profiler::ActiveSummary active, const planner::Variant& variant,
         planner::CutAxis axis, bool is_only_variant) {
  std::map<profiler::ActiveCase, std::vector<Sample>> groups;
  for (const Sample& sample : active.samples)
    if (sample.variant == variant.text() && is_watched(sample)) groups[case_of(sample)].push_back(sample);
  const std::string prefix = is_only_variant ? "" : variant.text() + " ";
  for (const auto& [one, samples] : groups) {
    sweep.cases.push_back(summarise(prefix + one.text(axis), samples));
  }
  sweep.samples = std::move(active.samples); // the earlier ones of all variants are among them
  sweep.round_count += static_cast<int>(active.rounds.size());
  sweep.termination += (sweep.termination.empty() ? "" : "; ") + prefix + std::to_string(active.measurement_count) +
                       " measurements; stopped: " + active.termination;
}

profiler::ActiveOptions options_of(const Workbench& bench, const ProfileSettings& settings,
                                   const planner::Variant& variant) {
  profiler::ActiveOptions options;
  options.question.op = bench.op();
  options.question.plan = settings.plan;
  options.question.variant = variant.text();
  options.question.sweep_alignment = settings.alignment;
  options.question.tolerated_regret = settings.active->tolerated_regret;
  options.question.seed = settings.sweep.seed;
  options.max_measurement_count = settings.active->max_measurement_count;
  options.budget = settings.sweep.budget / static_cast<int>(bench.variants().size());
  return options;
}

/// Measures one variant. `earlier` are the samples of all variants, so that new rounds are numbered after them.
Result<profiler::ActiveSummary> profile_variant(Workbench& bench, const ProfileSettings& settings,
                                                const planner::Variant& variant, store::Store& store,
                                                const std::vector<Sample>& earlier) {
  std::string label = "profile " + bench.op().text();
  if (bench.variants().size() > 1) label += " " + variant.text();
  std::optional<Error> store_error;
  auto progress = std::make_unique<ProgressLine>(label);
  profiler::ActiveHooks hooks;
  hooks.make_case = [&](const profiler::ActiveCase& one) { return make_sweep_case(bench, one, variant); };
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
  auto summary = profiler::run_active_sweep(options_of(bench, settings, variant), hooks, bench.fingerprint(), earlier);
  progress.reset();
  if (store_error) return *store_error;
  if (summary) std::cerr << label << ": stopped: " << summary.value().termination << "\n";
  return summary;
}

} // namespace

Result<profiler::SweepSummary> profile_actively(Workbench& bench, const ProfileSettings& settings,
                                                store::Store& store) {
  profiler::SweepSummary sweep;
  if (auto kept = store.find_profile(bench.op(), bench.fingerprint())) sweep.samples = std::move(kept).value().samples;
  for (const planner::Variant& variant : bench.variants()) {
    auto active = profile_variant(bench, settings, variant, store, sweep.samples);
    if (!active) return active.error();
    add(sweep, std::move(active).value(), variant, planner::cut_axis(bench.op()), bench.variants().size() == 1);
  }
  auto kept = store.replace_samples(bench.op(), bench.fingerprint(), sweep.samples, utc_now());
  if (!kept) return kept.error();
  return sweep;
}

} // namespace mc2::cli
