#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/tune.hpp"
#include "tune/cases.hpp"
#include "tune/screening.hpp"
#include "tune/turns.hpp"

namespace mc2::profiler {
namespace {

using planner::Sample;

/// How often the samples so far may add lengths.
constexpr int kMostFollowUps = 8;
/// A curve with a larger cross-validated error does not follow the lane between the timed lengths, e.g. because its
/// stairs are finer than the grid. This is several times the remaining noise of a settled length.
constexpr double kMisfit = 0.04;
constexpr int kMostBetween = 8; ///< lengths that one misfit adds

/// One profile: first a round over a grid of lengths. Then single rounds, each with added lengths, while the plan so
/// far uses lengths that were not timed or a curve does not follow its lane between lengths. Last, rounds until all
/// cases are settled; these are repeated if they lead to further lengths.
class Profiling {
 public:
  Profiling(Bench& bench, const ProfileSettings& settings, Keeper& keeper, const TuneHooks& hooks)
      : bench_(bench),
        settings_(settings),
        keeping_(keeper, hooks),
        on_line_(hooks.on_line),
        end_(bench.now() + settings.sweep.budget) {
    sweep_hooks_.now = [&] { return bench_.now(); };
    if (hooks.on_progress)
      sweep_hooks_.on_progress = [&hooks, label = "profile " + bench_.op().text()](Progress progress) {
        progress.label = label;
        hooks.on_progress(progress);
      };
    sweep_hooks_.on_samples = [this](std::span<const Sample> samples) { keeping_.append(samples); };
    sweep_hooks_.is_cancelled = [this] { return keeping_.is_cancelled(); };
  }

  [[nodiscard]] Result<SweepSummary> run(std::span<const Sample> earlier);

 private:
  struct Timed {
    planner::Variant variant;
    ProfileCase what;
    bool operator==(const Timed&) const = default;
  };

  [[nodiscard]] bool has(const planner::Variant& variant, std::int64_t length) const;
  [[nodiscard]] bool is_offered(const planner::Variant& variant) const {
    return std::ranges::find(bench_.variants(), variant) != bench_.variants().end();
  }
  /// Appends a case. Errors: as Bench::prepare_case.
  [[nodiscard]] Result<void> add(const Timed& one);
  [[nodiscard]] Result<void> add_grid();
  /// Appends cases of earlier samples that the grid lacks, so that these samples count where measurements are limited.
  [[nodiscard]] Result<void> add_earlier(std::span<const Sample> earlier);
  struct SoFar {
    planner::CostModel model;
    planner::Plan plan;
  };

  /// The model fitted to the samples, restricted to the variants that the bench offers, and its plan. Nothing where
  /// the samples cannot be fitted or allow no plan.
  [[nodiscard]] std::optional<SoFar> so_far(std::span<const Sample> samples) const;
  /// Adds the lengths of the plan's first and last block that are not timed yet, in front of the other cases. False
  /// where there are none.
  [[nodiscard]] Result<bool> add_lengths_of_plan(const planner::Plan& plan, std::span<const Sample> samples);
  /// For each lane of the plan's variant whose curve has an error above kMisfit: adds the middles of the widest gaps
  /// between timed lengths. False where there are none.
  [[nodiscard]] Result<bool> add_lengths_between(const SoFar& found);
  /// add_lengths_of_plan(), or add_lengths_between() where the plan has no new lengths.
  [[nodiscard]] Result<bool> add_lengths(std::span<const Sample> samples);
  [[nodiscard]] std::vector<std::int64_t> middles_of_gaps(const planner::Variant& variant, CaseTarget target) const;
  /// The cases that were timed, sorted by variant and length.
  [[nodiscard]] std::vector<CaseSummary> in_order(std::vector<CaseSummary> cases) const;
  /// @param max_round_count  0 for no limit
  [[nodiscard]] Result<SweepSummary> sweep(int max_round_count, std::span<const Sample> earlier);
  [[nodiscard]] int most_measurements() const {
    return settings_.max_measurement_count * static_cast<int>(bench_.variants().size());
  }
  [[nodiscard]] bool is_spent(const SweepSummary& summary) const {
    const bool are_measurements_spent = most_measurements() > 0 && summary.measurement_count >= most_measurements();
    return are_measurements_spent || time_left().count() == 0;
  }
  [[nodiscard]] std::chrono::milliseconds time_left() const {
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(end_ - bench_.now()),
                    std::chrono::milliseconds(0));
  }

  Bench& bench_;
  const ProfileSettings& settings_;
  KeepingSamples keeping_;
  SweepHooks sweep_hooks_;
  std::function<void(const std::string&)> on_line_; ///< may be empty
  std::chrono::steady_clock::time_point end_;
  bool is_warm_ = false;
  std::vector<Timed> timed_;
  std::vector<SweepCase> cases_; ///< the sweep cases of timed_, in the same order
};

bool Profiling::has(const planner::Variant& variant, std::int64_t length) const {
  return std::ranges::any_of(timed_,
                             [&](const Timed& one) { return one.variant == variant && one.what.block_rows == length; });
}

Result<void> Profiling::add_grid() {
  const std::int64_t rows = planner::traits_of(bench_.op().kind).cut_axis_length(bench_.op());
  for (const ProfileCase& one : grid_cases(rows, settings_.plan->alignment))
    for (const planner::Variant& variant : bench_.variants()) MC2_TRY(add({variant, one}));
  return {};
}

Result<void> Profiling::add(const Timed& one) {
  MC2_ASSIGN(auto made, make_case(bench_, one.what, one.variant));
  timed_.push_back(one);
  cases_.push_back(std::move(made));
  return {};
}

Result<void> Profiling::add_earlier(std::span<const Sample> earlier) {
  const std::int64_t rows = planner::traits_of(bench_.op().kind).cut_axis_length(bench_.op());
  for (const Sample& sample : earlier) {
    const Timed one{planner::parse_variant(sample.variant), case_of(sample)};
    const bool is_legal = sample.block_rows >= 1 && sample.block_rows <= rows && is_offered(one.variant);
    if (is_legal && std::ranges::find(timed_, one) == timed_.end()) MC2_TRY(add(one));
  }
  return {};
}

std::optional<Profiling::SoFar> Profiling::so_far(std::span<const Sample> samples) const {
  auto fitted = fit_cost_model({bench_.op(), bench_.fingerprint(), {samples.begin(), samples.end()}});
  if (!fitted) return std::nullopt;
  planner::CostModel model = std::move(fitted.value().model);
  std::erase_if(model.variants, [&](const planner::VariantCost& cost) { return !is_offered(cost.variant); });
  if (model.variants.empty()) return std::nullopt;
  planner::PlanOptions options = *settings_.plan;
  options.require_significant_gain = false; // what is not sure yet is what is worth timing
  auto plan = planner::make_plan(bench_.op(), model, options);
  if (!plan) return std::nullopt;
  return SoFar{std::move(model), std::move(plan).value()};
}

std::vector<std::int64_t> Profiling::middles_of_gaps(const planner::Variant& variant, CaseTarget target) const {
  std::vector<std::int64_t> lengths;
  for (const Timed& one : timed_)
    if (one.variant == variant && one.what.target == target) lengths.push_back(one.what.block_rows);
  std::ranges::sort(lengths);
  const std::int64_t step = settings_.plan->alignment;
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps; ///< width, middle
  for (std::size_t i = 1; i < lengths.size(); ++i) {
    const std::int64_t middle = (lengths[i - 1] + lengths[i]) / 2 / step * step;
    if (middle > lengths[i - 1]) gaps.emplace_back(lengths[i] - lengths[i - 1], middle);
  }
  std::ranges::sort(gaps, std::greater());
  std::vector<std::int64_t> middles;
  for (const auto& [width, middle] : std::span(gaps).first(std::min<std::size_t>(gaps.size(), kMostBetween)))
    middles.push_back(middle);
  return middles;
}

Result<bool> Profiling::add_lengths_between(const SoFar& found) {
  const planner::VariantCost& cost = *found.model.cost_of(found.plan.variant);
  const std::size_t known_count = cases_.size();
  for (const auto& [target, lane] :
       {std::pair{CaseTarget::Matmul, &cost.compute}, std::pair{CaseTarget::Collective, &cost.communication}}) {
    if (lane->curve.quality.cross_validated_rms <= kMisfit) continue;
    for (const std::int64_t length : middles_of_gaps(cost.variant, target))
      MC2_TRY(add({cost.variant, {target, length}}));
  }
  if (const std::size_t added = cases_.size() - known_count; on_line_ && added > 0)
    on_line_("profile " + bench_.op().text() + ": also " + std::to_string(added) +
             (added == 1 ? " length" : " lengths") +
             " between those that were timed, which the fitted curves do not follow");
  return cases_.size() > known_count;
}

Result<bool> Profiling::add_lengths_of_plan(const planner::Plan& plan, std::span<const Sample> samples) {
  const auto& blocks = plan.cut.block_rows;
  const std::size_t known_count = cases_.size();
  std::vector<std::string> told;
  for (const std::int64_t length : {blocks.front(), blocks.back()}) {
    if (has(plan.variant, length)) continue;
    for (const auto target : {CaseTarget::Collective, CaseTarget::Matmul}) {
      MC2_TRY(add({plan.variant, {target, length}}));
      std::ranges::rotate(timed_, timed_.end() - 1);
      std::ranges::rotate(cases_, cases_.end() - 1);
      if (std::ranges::any_of(samples, cases_.front().owns)) continue;
      for (int i = 0; i < settings_.sweep.warmup_rounds && !keeping_.is_cancelled() && time_left().count() > 0; ++i)
        static_cast<void>(cases_.front().measure());
      if (target == CaseTarget::Matmul) told.push_back(std::to_string(length));
    }
  }
  if (on_line_ && !told.empty())
    on_line_("profile " + bench_.op().text() + ": also blocks of " + and_text(told) +
             ", of the plan so far: " + plan.cut.text());
  return cases_.size() > known_count;
}

Result<bool> Profiling::add_lengths(std::span<const Sample> samples) {
  const auto found = so_far(samples);
  if (!found) return false;
  MC2_ASSIGN(const bool is_more, add_lengths_of_plan(found->plan, samples));
  return is_more ? Result<bool>(true) : add_lengths_between(*found);
}

Result<SweepSummary> Profiling::sweep(int max_round_count, std::span<const Sample> earlier) {
  SweepOptions options = settings_.sweep;
  options.budget = time_left();
  options.max_measurement_count = most_measurements();
  options.max_round_count = max_round_count;
  if (is_warm_) options.warmup_rounds = 0;
  is_warm_ = true;
  auto summary = run_sweep(cases_, options, sweep_hooks_, earlier);
  if (keeping_.error()) return *keeping_.error();
  return summary;
}

std::vector<CaseSummary> Profiling::in_order(std::vector<CaseSummary> cases) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (cases[i].sample_count > 0) order.push_back(i);
  std::ranges::sort(order, {}, [&](std::size_t i) {
    const auto variant = std::ranges::find(bench_.variants(), timed_[i].variant) - bench_.variants().begin();
    return std::tuple(variant, timed_[i].what.block_rows, timed_[i].what.target);
  });
  std::vector<CaseSummary> result;
  for (const std::size_t i : order) result.push_back(std::move(cases[i]));
  return result;
}

Result<SweepSummary> Profiling::run(std::span<const Sample> earlier) {
  MC2_TRY(add_grid());
  if (most_measurements() > 0) MC2_TRY(add_earlier(earlier));
  MC2_ASSIGN(auto summary, sweep(1, earlier));
  int round_count = summary.round_count;
  bool is_settled = false;
  for (int i = 0; i < kMostFollowUps && !is_spent(summary); ++i) {
    MC2_ASSIGN(const bool is_more, add_lengths(summary.samples));
    if ((!is_more && is_settled) || is_spent(summary)) break;
    is_settled = !is_more || i + 1 == kMostFollowUps;
    MC2_ASSIGN(summary, sweep(is_settled ? 0 : 1, summary.samples));
    round_count += summary.round_count;
  }
  summary.round_count = round_count;
  summary.cases = in_order(std::move(summary.cases));
  return summary;
}

} // namespace

std::string ProfileCase::text(planner::CutAxis axis) const {
  constexpr std::string_view kNames[] = {"compute", "collective", "both lanes"};
  return std::string(kNames[static_cast<std::size_t>(target) - 1]) + " " + std::to_string(block_rows) + " " +
         std::string(to_string(axis));
}

Result<SweepCase> make_case(Bench& bench, const ProfileCase& one, const planner::Variant& variant) {
  MC2_ASSIGN(auto measure, bench.prepare_case(one, variant));
  const planner::CutAxis axis = planner::cut_axis(bench.op());
  std::string name = one.text(axis);
  if (one.target == CaseTarget::Matmul) // by what the operator computes
    name = std::string(to_string(planner::traits_of(bench.op().kind).work)) + " " + std::to_string(one.block_rows) +
           " " + std::string(to_string(axis));
  if (bench.variants().size() > 1) name = variant.text() + " " + name;
  return SweepCase{std::move(name), std::move(measure),
                   [one, text = variant.text()](const Sample& s) { return s.variant == text && case_of(s) == one; }};
}

ProfileCase case_of(const Sample& sample) {
  if (sample.context == planner::Context::CoRun) return {CaseTarget::BothLanes, sample.block_rows};
  const bool is_matmul = sample.component == planner::Component::Matmul;
  return {is_matmul ? CaseTarget::Matmul : CaseTarget::Collective, sample.block_rows};
}

void KeepingSamples::append(std::span<const Sample> samples) {
  auto kept = keeper_.append_samples(samples);
  if (!kept && !error_) error_ = kept.error();
}

bool KeepingSamples::is_cancelled() const { return error_.has_value() || profiler::is_cancelled(hooks_); }

Result<void> check_plan_options(const planner::PlanOptions& options) {
  MC2_TRY(options.validate());
  if (options.counts.empty()) return {};
  return Error{ErrorCode::InvalidSpec, "counts",
               "are given, but equal splits are timed; leave them out, then plan with them from the model"};
}

Result<SweepSummary> profile(Bench& bench, const ProfileSettings& settings, Keeper& keeper, const TuneHooks& hooks) {
  MC2_TRY(bench.fingerprint().require_speeds());
  ProfileSettings asked = settings;
  if (!asked.plan) asked.plan = planner::default_options_on(bench.fingerprint());
  MC2_TRY(check_plan_options(*asked.plan));
  const std::vector<Sample> earlier = keeper.earlier_samples();
  MC2_ASSIGN(const auto screened, screen_variants(bench, asked, earlier, hooks));
  if (hooks.on_line && !screened.empty()) hooks.on_line("profile " + bench.op().text() + ": " + screened);
  MC2_ASSIGN(auto summary, Profiling(bench, asked, keeper, hooks).run(earlier));
  // Outliers can be told only once every sample is there.
  MC2_TRY(keeper.replace_samples(summary.samples));
  return summary;
}

} // namespace mc2::profiler
