#include <algorithm>
#include <map>

#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/profiler/statistics.hpp"
#include "tune/cases.hpp"

namespace mc2::profiler {
namespace {

using planner::Sample;

/// A pair is watched through its matmul, as the sweep does.
bool is_watched(const Sample& sample) {
  return sample.context == planner::Context::Alone || sample.component == planner::Component::Matmul;
}

CaseSummary summarise(const std::string& name, const std::vector<Sample>& samples) {
  std::vector<double> times, ordinary;
  for (const Sample& sample : samples) {
    times.push_back(sample.time_us());
    if (!sample.is_outlier) ordinary.push_back(times.back());
  }
  CaseSummary summary;
  summary.name = name;
  summary.sample_count = static_cast<int>(times.size());
  summary.outlier_count = static_cast<int>(times.size() - ordinary.size());
  summary.low_quantile_us = quantile(times, StoppingOptions{}.quantile);
  summary.median_us = median(times);
  summary.p95_us = quantile(times, 0.95);
  summary.noise_ratio = relative_deviation(ordinary);
  summary.stop_reason = "chosen " + std::to_string(times.size()) + (times.size() == 1 ? " time" : " times");
  return summary;
}

/// What the active sweeps of the variants found, as one sweep.
void add(SweepSummary& sweep, ActiveSummary active, const planner::Variant& variant, planner::CutAxis axis,
         bool is_only_variant) {
  std::map<ActiveCase, std::vector<Sample>> groups;
  for (const Sample& sample : active.samples)
    if (sample.variant == variant.text() && is_watched(sample)) groups[case_of(sample)].push_back(sample);
  const std::string prefix = is_only_variant ? "" : variant.text() + " ";
  for (const auto& [one, samples] : groups) sweep.cases.push_back(summarise(prefix + one.text(axis), samples));
  sweep.samples = std::move(active.samples); // the earlier ones of all variants are among them
  sweep.round_count += static_cast<int>(active.rounds.size());
  sweep.termination += (sweep.termination.empty() ? "" : "; ") + prefix + std::to_string(active.measurement_count) +
                       " measurements; stopped: " + active.termination;
}

ActiveOptions options_of(const Bench& bench, const ProfileSettings& settings, const planner::Variant& variant) {
  ActiveOptions options;
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

std::string detail_of(const ActiveProgress& p) {
  return std::to_string(p.measurement_count) + " of at most " + std::to_string(p.max_measurement_count) +
         " measurements" + (p.regret < 0 ? "" : ", expected regret " + percent_text(p.regret));
}

/// Measures one variant. `earlier` are the samples of all variants, so that new rounds are numbered after them.
Result<ActiveSummary> profile_variant(Bench& bench, const ProfileSettings& settings, const planner::Variant& variant,
                                      Keeper& keeper, const TuneHooks& hooks, std::span<const Sample> earlier) {
  std::string label = "profile " + bench.op().text();
  if (bench.variants().size() > 1) label += " " + variant.text();
  const auto tell = [&](const std::string& line) {
    if (hooks.on_line) hooks.on_line(label + ": " + line);
  };
  KeepingSamples keeping(keeper, hooks);
  ActiveHooks active_hooks;
  active_hooks.make_case = [&](const ActiveCase& one) { return make_case(bench, one, variant); };
  active_hooks.now = [&] { return bench.now(); };
  active_hooks.on_progress = [&](const ActiveProgress& p) {
    if (hooks.on_progress)
      hooks.on_progress(
          {label, static_cast<double>(p.measurement_count) / p.max_measurement_count, p.remaining, detail_of(p)});
  };
  active_hooks.on_round = [&](const ActiveRound& round) { tell(round.text()); };
  active_hooks.on_samples = [&](std::span<const Sample> samples) { keeping.append(samples); };
  active_hooks.is_cancelled = [&] { return keeping.is_cancelled(); };
  auto summary = run_active_sweep(options_of(bench, settings, variant), active_hooks, bench.fingerprint(), earlier);
  if (keeping.error()) return *keeping.error();
  if (summary) tell("stopped: " + summary.value().termination);
  return summary;
}

} // namespace

Result<SweepSummary> profile_actively(Bench& bench, const ProfileSettings& settings, Keeper& keeper,
                                      const TuneHooks& hooks, std::span<const Sample> earlier) {
  SweepSummary sweep;
  sweep.samples.assign(earlier.begin(), earlier.end());
  for (const planner::Variant& variant : bench.variants()) {
    MC2_ASSIGN(auto active, profile_variant(bench, settings, variant, keeper, hooks, sweep.samples));
    add(sweep, std::move(active), variant, planner::cut_axis(bench.op()), bench.variants().size() == 1);
  }
  return sweep;
}

} // namespace mc2::profiler
