#include "mc2/profiler/tune.hpp"

#include <algorithm>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/recalibrate.hpp"
#include "tune/cases.hpp"
#include "tune/judge.hpp"
#include "tune/turns.hpp"
#include "tune/without_model.hpp"

namespace mc2::profiler {
namespace {

using planner::CostModel;
using planner::Plan;

/// Number of runners-up to ask for: enough that several block counts are among them.
constexpr int kSearchDepth = 40;
constexpr std::size_t kContenderCount = 4;
/// A contender predicted this much slower than the best is not worth the machine's time.
constexpr double kContenderMargin = 1.05;
/// Contenders differ in their number of blocks by at least this factor. Closer numbers would teach little about the
/// additional cost of a block, which models know least.
constexpr double kBlockCountStep = 1.25;
constexpr double kVariantMargin = 1.2;
/// 1 / kTrialShare of the remaining budget goes to trying cuts that the model does not prefer, a few runs each. A tried
/// cut is predicted at most kTrialMargin slower than the best, and joins the race if it is within kAsFast of the
/// fastest.
constexpr int kTrialShare = 20;
constexpr double kTrialMargin = 1.3, kAsFast = 1.03;
constexpr int kTrialRuns = 8, kMostTrials = 32, kMostTried = 3; ///< kTrialRuns includes the warm-up run
constexpr int kMaxRaceCount = 3;
constexpr double kProfileShare = 0.6; ///< largest share of the budget for profiling

std::vector<planner::MeasuredCut> observations(const Race& race, const CostModel& model) {
  std::vector<planner::MeasuredCut> result;
  for (const auto& contender : race.contenders) {
    if (contender.is_serial || model.cost_of(contender.variant) == nullptr) continue;
    result.push_back(observation_of(contender));
  }
  return result;
}

bool has_raced(std::span<const Plan> raced, const Plan& one) {
  return std::ranges::any_of(raced, [&](const Plan& plan) { return planner::is_same_choice(plan, one); });
}

/// Adds the best cut of every variant without a contender, unless it is far behind. Variants differ mostly in how their
/// lanes disturb each other, which a profile knows least.
Result<void> add_other_variants(const planner::OpSpec& op, const CostModel& model, const planner::PlanOptions& options,
                                std::vector<Plan>& contenders) {
  const double limit_us = kVariantMargin * contenders.front().makespan.us;
  for (const auto& cost : model.variants) {
    if (std::ranges::find(contenders, cost.variant, &Plan::variant) != contenders.end()) continue;
    MC2_ASSIGN(const auto alone, planner::restricted_to(cost.variant, model));
    MC2_ASSIGN(auto plan, planner::make_plan(op, alone, options));
    if (plan.overlaps() && plan.makespan.us <= limit_us) contenders.push_back(std::move(plan));
  }
  return {};
}

bool is_near(double block_count, double other) {
  return std::max(block_count, other) < kBlockCountStep * std::min(block_count, other);
}

/// The best cuts that differ enough to be worth racing: the best plan and the best cuts of clearly different block
/// counts, together at most kContenderCount, and the best cut of every other variant that is not far behind.
/// Errors: as planner::make_plan.
Result<std::vector<Plan>> choose_contenders(const planner::OpSpec& op, const CostModel& model,
                                            const planner::PlanOptions& options) {
  planner::PlanOptions deep = options;
  deep.runner_up_count = kSearchDepth;
  MC2_ASSIGN(auto best, planner::make_plan(op, model, deep));
  std::vector<Plan> contenders{best};
  std::vector<double> block_counts{1, static_cast<double>(best.cut.block_rows.size())};
  for (const auto& runner_up : best.runners_up) {
    if (contenders.size() == kContenderCount) break;
    if (runner_up.makespan_us > kContenderMargin * best.makespan.us) break;
    const auto block_count = static_cast<double>(runner_up.cut.block_rows.size());
    if (std::ranges::any_of(block_counts, [&](double other) { return is_near(block_count, other); })) continue;
    block_counts.push_back(block_count);
    MC2_ASSIGN(auto plan, planner::predict_cut(op, model, runner_up.variant, runner_up.cut));
    contenders.push_back(std::move(plan));
  }
  MC2_TRY(add_other_variants(op, model, options, contenders));
  return contenders;
}

/// Cuts of every variant with clearly different numbers of blocks, at most `count`, the fastest prediction first.
/// Leaves out cuts that are already chosen or far slower than the best.
Result<std::vector<Plan>> other_cuts(const planner::OpSpec& op, const CostModel& model,
                                     const planner::PlanOptions& options, std::span<const Plan> chosen, int count) {
  planner::PlanOptions deep = options;
  deep.runner_up_count = kSearchDepth;
  const double limit_us = kTrialMargin * chosen.front().makespan.us;
  std::vector<Plan> others;
  for (const auto& cost : model.variants) {
    MC2_ASSIGN(const auto alone, planner::restricted_to(cost.variant, model));
    MC2_ASSIGN(const auto best, planner::make_plan(op, alone, deep));
    std::vector<planner::Cut> cuts{best.cut};
    for (const auto& runner_up : best.runners_up) cuts.push_back(runner_up.cut);
    std::vector<double> block_counts;
    for (const planner::Cut& cut : cuts) {
      const auto block_count = static_cast<double>(cut.block_rows.size());
      if (std::ranges::any_of(block_counts, [&](double other) { return is_near(block_count, other); })) continue;
      block_counts.push_back(block_count);
      MC2_ASSIGN(auto plan, planner::predict_cut(op, model, cost.variant, cut));
      if (plan.overlaps() && plan.makespan.us <= limit_us && !has_raced(chosen, plan))
        others.push_back(std::move(plan));
    }
  }
  std::ranges::stable_sort(others, {}, [](const Plan& plan) { return plan.makespan.us; });
  if (std::ssize(others) > count) others.resize(static_cast<std::size_t>(count));
  return others;
}

/// One tuning: its steps in order.
class Tuner {
 public:
  Tuner(Bench& bench, const TuneSettings& settings, Keeper& keeper, TuneHooks hooks)
      : bench_(bench), settings_(settings), keeper_(keeper), end_(bench.now() + settings.budget) {
    if (hooks.on_progress)
      hooks.on_progress = [this, show = std::move(hooks.on_progress)](Progress progress) {
        progress.budget_left = budget_left();
        show(progress);
      };
    hooks_ = std::move(hooks);
  }

  [[nodiscard]] Result<Tuned> run();

 private:
  [[nodiscard]] std::chrono::milliseconds budget_left() const {
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(end_ - bench_.now()),
                    std::chrono::milliseconds(0));
  }
  /// Each race gets half of the remaining budget, because another may follow; the last possible race gets all of it.
  [[nodiscard]] RaceSettings race_settings(int round) const {
    RaceSettings result = settings_.race;
    result.budget = round == kMaxRaceCount ? budget_left() : budget_left() / 2;
    return result;
  }
  /// Sets the model, or no_model_ where the samples cannot be fitted.
  [[nodiscard]] Result<void> find_model();
  [[nodiscard]] Result<CostModel> offered() const;
  [[nodiscard]] Result<void> choose();
  /// Adds cuts that a few runs show to be about as fast as the fastest contender.
  [[nodiscard]] Result<void> try_others();
  void add_as_fast(std::span<const Plan> tried, std::span<const double> us);
  [[nodiscard]] Result<void> check_new();
  [[nodiscard]] Result<void> learn();
  /// Races until the recalibrated model prefers a cut that has raced, at most kMaxRaceCount times; once without a
  /// model.
  [[nodiscard]] Result<void> race_and_learn();
  /// Adds the cut that the model prefers now to the contenders. False when that cut has raced or does not overlap.
  [[nodiscard]] Result<bool> add_preferred();
  [[nodiscard]] Result<Plan> judged() const;
  [[nodiscard]] Result<void> keep();
  void tell_of_race(const std::string& line) const {
    if (hooks_.on_race) hooks_.on_race(line);
  }
  void tell_contenders() const;

  Bench& bench_;
  const TuneSettings& settings_;
  Keeper& keeper_;
  TuneHooks hooks_;
  std::chrono::steady_clock::time_point end_; ///< when the budget is spent
  Tuned tuned_;
  std::string no_model_;          ///< why there is no model
  std::size_t checked_count_ = 0; ///< contenders already verified: the oracle of a large operator takes seconds
  double timed_us_ = 0;           ///< sum over all races
};

Result<void> Tuner::find_model() {
  if (settings_.known_model) {
    CostModel model = *settings_.known_model;
    if (const auto others = bench_.fingerprint().differences(model.fingerprint); !others.empty())
      return Error{ErrorCode::Stale, "model",
                   "is of another machine (" + others.front() + "); leave it out to profile"};
    if (planner::has_same_block_costs(model.op, bench_.op())) { // its curves are valid for every length
      model.serial = planner::serial_run(model, bench_.op());
      model.op = bench_.op();
    }
    tuned_.model = std::move(model);
    return {};
  }
  ProfileSettings asked = settings_.profile;
  asked.sweep.budget = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.budget * kProfileShare);
  MC2_ASSIGN(auto summary, profile(bench_, asked, keeper_, hooks_));
  tuned_.samples = std::move(summary).samples;
  auto fitted = fit_cost_model({bench_.op(), bench_.fingerprint(), tuned_.samples});
  if (!fitted && fitted.error().code != ErrorCode::CannotFit) return fitted.error();
  if (!fitted) {
    no_model_ = fitted.error().message;
    tuned_.notes.push_back("no model: " + no_model_ + "; raced a few cuts without one");
    if (hooks_.on_line) hooks_.on_line("no model: " + no_model_ + "; racing a few cuts without one");
    return {};
  }
  tuned_.notes = std::move(fitted.value().notes);
  tuned_.model = std::move(fitted.value().model);
  return keeper_.keep_model(*tuned_.model);
}

/// The model restricted to the variants that may be planned with.
Result<CostModel> Tuner::offered() const {
  if (!settings_.only) return *tuned_.model;
  return planner::restricted_to(*settings_.only, *tuned_.model);
}

Result<void> Tuner::choose() {
  if (!tuned_.model) {
    MC2_ASSIGN(tuned_.contenders, plain_contenders(bench_, *settings_.plan, settings_.only));
    return {};
  }
  MC2_ASSIGN(const auto model, offered());
  MC2_ASSIGN(tuned_.contenders, choose_contenders(bench_.op(), model, *settings_.plan));
  MC2_ASSIGN(auto rivals, bench_.rivals(*tuned_.model));
  for (auto& rival : rivals) tuned_.contenders.push_back(std::move(rival));
  return {};
}

Result<void> Tuner::try_others() {
  if (!tuned_.model) return {};
  const auto time = budget_left() / kTrialShare;
  const double run_us = tuned_.contenders.front().makespan.us;
  const double affordable =
      planner::to_us(time) / (kTrialRuns * run_us) - static_cast<double>(tuned_.contenders.size());
  if (!(affordable >= 1)) return {};
  MC2_ASSIGN(const auto model, offered());
  MC2_ASSIGN(const auto others, other_cuts(bench_.op(), model, *settings_.plan, tuned_.contenders,
                                           static_cast<int>(std::min<double>(affordable, kMostTrials))));
  std::vector<std::size_t> prepared;
  for (const Plan& plan : tuned_.contenders) {
    MC2_ASSIGN(const auto ready, bench_.prepare(plan));
    prepared.push_back(ready);
  }
  const auto end_of_preparing = bench_.now() + time;
  std::vector<Plan> tried;
  for (const Plan& plan : others) {
    if (bench_.now() > end_of_preparing) break;
    const auto ready = bench_.prepare(plan);
    if (!ready) continue; // a cut that cannot run here is no error, because it is only a trial
    prepared.push_back(ready.value());
    tried.push_back(plan);
  }
  if (tried.empty()) return {};
  MC2_ASSIGN(const auto us, time_in_turn(bench_, prepared, RunPart::Fused, bench_.now() + time, hooks_));
  add_as_fast(tried, us);
  return {};
}

/// @param us  times of the contenders, then of the tried cuts
void Tuner::add_as_fast(std::span<const Plan> tried, std::span<const double> us) {
  const double limit_us = kAsFast * *std::ranges::min_element(us);
  const auto own_us = us.subspan(tuned_.contenders.size());
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tried.size(); ++i)
    if (own_us[i] <= limit_us) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return own_us[i]; });
  if (std::ssize(order) > kMostTried) order.resize(kMostTried);
  for (const std::size_t i : order) tuned_.contenders.push_back(tried[i]);
}

Result<void> Tuner::check_new() {
  for (; checked_count_ < tuned_.contenders.size(); ++checked_count_) {
    if (is_cancelled(hooks_)) return Error{ErrorCode::Cancelled, "check", "interrupted before a cut was checked"};
    MC2_TRY(bench_.verify(tuned_.contenders[checked_count_]));
  }
  return {};
}

/// Stores the measured time of the serial run's matmul in a model of this operator, then recalibrates the model with
/// the race. Without a contender that overlapped there is nothing to recalibrate.
Result<void> Tuner::learn() {
  if (!tuned_.model) return {};
  if (tuned_.model->op == bench_.op())
    tuned_.model = planner::with_serial_run(*std::move(tuned_.model),
                                            {tuned_.race.serial_variant, median(tuned_.race.compute_us)});
  const auto seen = observations(tuned_.race, *tuned_.model);
  if (seen.empty()) return {};
  MC2_ASSIGN(auto recalibrated, recalibrate(*tuned_.model, seen));
  tuned_.notes.push_back("recalibrated: " + recalibrated.text);
  tuned_.model = std::move(recalibrated.model);
  return {};
}

Result<bool> Tuner::add_preferred() {
  if (!tuned_.model) return false;
  MC2_ASSIGN(const auto model, offered());
  MC2_ASSIGN(auto best, planner::make_plan(bench_.op(), model, *settings_.plan));
  if (has_raced(tuned_.contenders, best) || !best.overlaps()) return false;
  tuned_.contenders.push_back(std::move(best));
  return true;
}

void Tuner::tell_contenders() const {
  const auto name = [](const Plan& plan) { return plan.cut.text() + " " + plan.variant.text(); };
  tell_of_race("race " + bench_.op().text() + ": " + list_text(tuned_.contenders, name));
}

Result<void> Tuner::race_and_learn() {
  for (int round = 1; round <= kMaxRaceCount; ++round) {
    MC2_TRY(check_new());
    tell_contenders();
    const std::string label = "race " + std::to_string(round);
    MC2_ASSIGN(tuned_.race, race(bench_, tuned_.contenders, race_settings(round), label, hooks_));
    timed_us_ += tuned_.race.timed_us;
    MC2_TRY(learn());
    if (round == kMaxRaceCount) break;
    MC2_ASSIGN(const auto added, add_preferred());
    if (!added) break;
  }
  tuned_.notes.push_back("races ran for " + number_text(timed_us_ * 1e-6) + " s in all");
  return {};
}

Result<Plan> Tuner::judged() const {
  if (!tuned_.model) return judge_without_model(tuned_.race, tuned_.contenders, *settings_.plan, no_model_);
  MC2_ASSIGN(const auto model, offered());
  return judge(bench_.op(), model, tuned_.race, tuned_.contenders, *settings_.plan);
}

Result<void> Tuner::keep() {
  // A known model may be of another shape, so it is not kept as this operator's.
  if (!settings_.known_model && tuned_.model) MC2_TRY(keeper_.keep_model(*tuned_.model));
  if (tuned_.model) // a race is kept together with the predictions of its contenders
    MC2_TRY(keeper_.keep_race(tuned_.race, tuned_.contenders));
  return keeper_.keep_plan(tuned_.plan);
}

Result<Tuned> Tuner::run() {
  MC2_TRY(find_model());
  MC2_TRY(choose());
  MC2_TRY(try_others());
  MC2_TRY(race_and_learn());
  MC2_ASSIGN(tuned_.plan, judged());
  tell_of_race("plan " + bench_.op().text() + ": " + tuned_.plan.cut.text() + " " + tuned_.plan.variant.text() + ", " +
               tuned_.plan.reason);
  MC2_TRY(keep());
  return std::move(tuned_);
}

} // namespace

Result<Tuned> tune(Bench& bench, const TuneSettings& settings, Keeper& keeper, const TuneHooks& hooks) {
  MC2_TRY(bench.fingerprint().require_speeds());
  TuneSettings asked = settings;
  if (!asked.plan) asked.plan = planner::default_options_on(bench.fingerprint());
  MC2_TRY(check_plan_options(*asked.plan));
  asked.profile.plan = asked.plan;
  return Tuner(bench, asked, keeper, hooks).run();
}

} // namespace mc2::profiler
