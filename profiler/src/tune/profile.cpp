#include <chrono>

#include "mc2/profiler/tune.hpp"
#include "tune/cases.hpp"
#include "tune/screening.hpp"
#include "tune/turns.hpp"

namespace mc2::profiler {
namespace {

using planner::Sample;

/// The lengths at which both lanes are also timed together: those near typical plans of 4 to 16 blocks.
bool is_co_run_length(std::int64_t rows, std::int64_t length) { return length * 3 <= rows && length * 17 >= rows; }

Result<std::vector<SweepCase>> sweep_cases(Bench& bench, std::int64_t alignment) {
  const std::int64_t rows = planner::traits_of(bench.op().kind).cut_axis_length(bench.op());
  std::vector<ActiveCase> sizes;
  for (const std::int64_t length : sweep_block_rows(rows, alignment))
    for (const auto target : {ActiveTarget::Matmul, ActiveTarget::Collective, ActiveTarget::BothLanes})
      if (target != ActiveTarget::BothLanes || is_co_run_length(rows, length)) sizes.push_back({target, length});
  std::vector<SweepCase> cases;
  for (const planner::Variant& variant : bench.variants())
    for (const auto& size : sizes) {
      MC2_ASSIGN(auto made, make_case(bench, size, variant));
      cases.push_back(std::move(made));
    }
  return cases;
}

Result<SweepSummary> profile_all(Bench& bench, const ProfileSettings& settings, Keeper& keeper, const TuneHooks& hooks,
                                 std::span<const Sample> earlier) {
  MC2_ASSIGN(auto cases, sweep_cases(bench, settings.alignment));
  KeepingSamples keeping(keeper, hooks);
  SweepHooks sweep_hooks;
  sweep_hooks.now = [&] { return bench.now(); };
  if (hooks.on_progress)
    sweep_hooks.on_progress = [&, label = "profile " + bench.op().text()](const SweepProgress& p) {
      hooks.on_progress(
          {label, p.fraction, p.remaining,
           std::to_string(p.finished_case_count) + " of " + std::to_string(p.case_count) + " cases settled"});
    };
  sweep_hooks.on_samples = [&](std::span<const Sample> samples) { keeping.append(samples); };
  sweep_hooks.is_cancelled = [&] { return keeping.is_cancelled(); };
  auto summary = run_sweep(cases, settings.sweep, sweep_hooks, earlier);
  if (keeping.error()) return *keeping.error();
  return summary;
}

} // namespace

Result<SweepCase> make_case(Bench& bench, const ActiveCase& one, const planner::Variant& variant) {
  MC2_ASSIGN(auto measure, bench.prepare_case(one, variant));
  const planner::CutAxis axis = planner::cut_axis(bench.op());
  std::string name = one.text(axis);
  if (one.target == ActiveTarget::Matmul) // by what the operator computes
    name = std::string(to_string(planner::traits_of(bench.op().kind).work)) + " " + std::to_string(one.block_rows) +
           " " + std::string(to_string(axis));
  if (bench.variants().size() > 1) name = variant.text() + " " + name;
  return SweepCase{std::move(name), std::move(measure),
                   [one, text = variant.text()](const Sample& s) { return s.variant == text && case_of(s) == one; }};
}

ActiveCase case_of(const Sample& sample) {
  if (sample.context == planner::Context::CoRun) return {ActiveTarget::BothLanes, sample.block_rows};
  const bool is_matmul = sample.component == planner::Component::Matmul;
  return {is_matmul ? ActiveTarget::Matmul : ActiveTarget::Collective, sample.block_rows};
}

void KeepingSamples::append(std::span<const Sample> samples) {
  auto kept = keeper_.append_samples(samples);
  if (!kept && !error_) error_ = kept.error();
}

bool KeepingSamples::is_cancelled() const { return error_.has_value() || profiler::is_cancelled(hooks_); }

Result<SweepSummary> profile(Bench& bench, const ProfileSettings& settings, Keeper& keeper, const TuneHooks& hooks) {
  const std::vector<Sample> earlier = keeper.earlier_samples();
  MC2_ASSIGN(const auto screened, screen_variants(bench, settings, earlier, hooks));
  if (hooks.on_line && !screened.empty()) hooks.on_line("profile " + bench.op().text() + ": " + screened);
  MC2_ASSIGN(auto summary, settings.active ? profile_actively(bench, settings, keeper, hooks, earlier)
                                           : profile_all(bench, settings, keeper, hooks, earlier));
  // Outliers can be told only once every sample is there.
  MC2_TRY(keeper.replace_samples(summary.samples));
  return summary;
}

} // namespace mc2::profiler
