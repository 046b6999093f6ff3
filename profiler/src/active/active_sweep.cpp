#include "mc2/profiler/active_sweep.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "mc2/planner/text.hpp"
#include "mc2/profiler/statistics.hpp"

namespace mc2::profiler {
namespace {

using planner::Sample;
using Clock = std::chrono::steady_clock;

constexpr double kUnknownRegret = -1;

std::string cases_text(const std::vector<ActiveCase>& cases, planner::CutAxis axis) {
  std::string text;
  for (const ActiveCase& one : cases) text += (text.empty() ? "" : ", ") + one.text(axis);
  return text;
}

/// Drift between rounds is not corrected here: a case's few visits say more of it than of interruptions, and
/// find_outliers leaves small groups alone.
void mark_outliers(std::vector<Sample>& samples) {
  std::map<std::tuple<std::string, planner::Component, planner::Context, std::int64_t>, std::vector<std::size_t>>
      groups;
  for (std::size_t i = 0; i < samples.size(); ++i)
    groups[{samples[i].variant, samples[i].component, samples[i].context, samples[i].block_rows}].push_back(i);
  for (const auto& [key, members] : groups) {
    std::vector<double> times;
    for (const std::size_t i : members) times.push_back(static_cast<double>(samples[i].time.count()));
    const std::vector<bool> marks = find_outliers(times);
    for (std::size_t i = 0; i < members.size(); ++i) samples[members[i]].is_outlier = marks[i];
  }
}

class ActiveSweep {
 public:
  ActiveSweep(const ActiveOptions& options, const ActiveHooks& hooks, const planner::Fingerprint& fingerprint,
              std::span<const Sample> earlier)
      : options_(options),
        hooks_(hooks),
        fingerprint_(fingerprint),
        question_(options.question),
        start_(hooks.now()),
        samples_(earlier.begin(), earlier.end()),
        count_(measurement_count(samples_, question_.variant)) {
    for (const Sample& sample : samples_) round_ = std::max(round_, sample.round + 1);
    mark_outliers(samples_);
  }

  Result<ActiveSummary> run();

 private:
  Result<void> run_round(std::vector<ActiveCase> cases);
  Result<void> prepare(const std::vector<ActiveCase>& cases);
  void visit(const ActiveCase& one);
  void flush(std::size_t first_new);
  void adopt_plan();
  void report();
  ActiveSummary finish(ActiveStop stop, std::string termination);

  [[nodiscard]] bool is_cancelled() const { return hooks_.is_cancelled && hooks_.is_cancelled(); }
  [[nodiscard]] Error cancelled() const {
    return {ErrorCode::Cancelled, "",
            "the active sweep was interrupted after " + std::to_string(count_) + " measurements"};
  }
  [[nodiscard]] std::string budget_spent() const;
  void close_round(const ActiveAdvice& now);

  const ActiveOptions& options_;
  const ActiveHooks& hooks_;
  const planner::Fingerprint& fingerprint_;
  ActiveQuestion question_;
  Clock::time_point start_;
  std::vector<Sample> samples_;
  int count_ = 0;     ///< visits, earlier ones included
  int new_count_ = 0; ///< visits of this call
  int round_ = 0;     ///< number of the next round
  double regret_ = kUnknownRegret;
  std::map<ActiveCase, SweepCase> cases_;
  std::vector<ActiveRound> rounds_;
};

/// What a case needs before its first visit happens outside the round, so that a round stays short.
Result<void> ActiveSweep::prepare(const std::vector<ActiveCase>& cases) {
  for (const ActiveCase& one : cases) {
    if (cases_.contains(one)) continue;
    MC2_ASSIGN(auto made, hooks_.make_case(one));
    if (!made.measure)
      return Error{ErrorCode::InvalidSpec, "hooks.make_case",
                   "gave no 'measure' for " + one.text(cut_axis(question_.op))};
    for (int i = 0; i < options_.warmup_count; ++i) {
      if (is_cancelled()) return cancelled();
      static_cast<void>(made.measure());
    }
    cases_.emplace(one, std::move(made));
  }
  return {};
}

void ActiveSweep::visit(const ActiveCase& one) {
  std::vector<Sample> measured = cases_.at(one).measure();
  MC2_CHECK(!measured.empty(), "a sweep case returned no sample");
  for (Sample& sample : measured) {
    sample.round = round_;
    sample.is_outlier = false;
    samples_.push_back(std::move(sample));
  }
  ++count_;
  ++new_count_;
}

void ActiveSweep::flush(std::size_t first_new) {
  if (!hooks_.on_samples || first_new == samples_.size()) return;
  hooks_.on_samples(std::span<const Sample>(samples_).subspan(first_new));
}

Result<void> ActiveSweep::run_round(std::vector<ActiveCase> cases) {
  // Pairs last: both lanes alone have then warmed the machine up, and a round cut short still has them.
  std::stable_sort(cases.begin(), cases.end(), [](const ActiveCase& a, const ActiveCase& b) {
    return (a.target != ActiveTarget::BothLanes) > (b.target != ActiveTarget::BothLanes);
  });
  const auto left = static_cast<std::size_t>(options_.max_measurement_count - count_);
  if (cases.size() > left) cases.resize(left);
  MC2_TRY(prepare(cases));
  const std::size_t first_new = samples_.size();
  try {
    for (const ActiveCase& one : cases) {
      if (is_cancelled()) {
        flush(first_new);
        return cancelled();
      }
      visit(one);
      report();
    }
  } catch (...) {
    flush(first_new);
    throw;
  }
  flush(first_new);
  rounds_.push_back({std::move(cases), regret_, kUnknownRegret, {}, round_, cut_axis(question_.op)});
  ++round_;
  mark_outliers(samples_);
  return {};
}

/// The plan that one would use now: that of the model fitted to what is there of the variant.
void ActiveSweep::adopt_plan() {
  question_.incumbent.reset();
  std::vector<Sample> own;
  std::copy_if(samples_.begin(), samples_.end(), std::back_inserter(own),
               [&](const Sample& sample) { return sample.variant == question_.variant; });
  const auto fitted = fit_cost_model({question_.op, fingerprint_, std::move(own)}, options_.fit);
  if (!fitted) return;
  const auto plan = planner::make_plan(question_.op, fitted.value().model, question_.plan);
  if (plan) question_.incumbent = plan.value().cut;
}

void ActiveSweep::report() {
  if (!hooks_.on_progress) return;
  const auto elapsed = hooks_.now() - start_;
  const auto left = elapsed / std::max(new_count_, 1) * std::max(options_.max_measurement_count - count_, 0);
  hooks_.on_progress({count_, options_.max_measurement_count, regret_,
                      std::chrono::duration_cast<std::chrono::milliseconds>(elapsed),
                      std::chrono::duration_cast<std::chrono::milliseconds>(left)});
}

/// Empty while there is something left.
std::string ActiveSweep::budget_spent() const {
  if (count_ >= options_.max_measurement_count)
    return "all " + std::to_string(options_.max_measurement_count) + " measurements are used";
  if (!rounds_.empty() && hooks_.now() - start_ >= options_.budget) return "the time budget is spent";
  return {};
}

/// The advice after a round tells what the round was worth.
void ActiveSweep::close_round(const ActiveAdvice& now) {
  regret_ = now.makespan_us > 0 ? now.regret_us / now.makespan_us : now.is_design ? kUnknownRegret : 0;
  if (rounds_.empty() || rounds_.back().number != round_ - 1) return;
  rounds_.back().regret_after = regret_;
  if (question_.incumbent) rounds_.back().plan = *question_.incumbent;
  if (hooks_.on_round) hooks_.on_round(rounds_.back());
}

ActiveSummary ActiveSweep::finish(ActiveStop stop, std::string termination) {
  if (stop == ActiveStop::NotYet && regret_ >= 0)
    termination += "; the plan is still expected to lose " + percent_text(regret_) + " to the best one";
  return {std::move(samples_), std::move(rounds_), count_, regret_, stop, std::move(termination)};
}

Result<ActiveSummary> ActiveSweep::run() {
  for (;;) {
    adopt_plan();
    MC2_ASSIGN(auto advice, advise(question_, samples_));
    close_round(advice);
    if (advice.stop != ActiveStop::NotYet) return finish(advice.stop, advice.reason);
    if (std::string spent = budget_spent(); !spent.empty()) return finish(ActiveStop::NotYet, std::move(spent));
    MC2_TRY(run_round(std::move(advice.cases)));
  }
}

} // namespace

Result<void> ActiveOptions::validate() const {
  if (auto valid = question.validate(); !valid)
    return Error{valid.error().code, "question." + valid.error().field, valid.error().message};
  if (max_measurement_count < kMinActiveMeasurements)
    return Error{ErrorCode::InvalidSpec, "max_measurement_count",
                 "must be at least " + std::to_string(kMinActiveMeasurements) + ", what a first fit needs"};
  if (warmup_count < 0) return Error{ErrorCode::InvalidSpec, "warmup_count", "must be 0 or more"};
  if (budget.count() < 0) return Error{ErrorCode::InvalidSpec, "budget", "must be 0 ms or more"};
  return fit.validate();
}

std::string ActiveRound::text() const {
  std::string text = "round " + std::to_string(number) + ": " + cases_text(cases, axis) + ": expected regret ";
  if (regret_before >= 0) text += percent_text(regret_before) + " -> ";
  text += regret_after >= 0 ? percent_text(regret_after) : std::string("not known yet");
  return plan.block_rows.empty() ? text : text + "; plan " + plan.text();
}

Result<ActiveSummary> run_active_sweep(const ActiveOptions& options, const ActiveHooks& hooks,
                                       const planner::Fingerprint& fingerprint, std::span<const Sample> earlier) {
  MC2_TRY(options.validate());
  if (!hooks.make_case) return Error{ErrorCode::InvalidSpec, "hooks.make_case", "is empty; nothing can be timed"};
  if (!hooks.now) return Error{ErrorCode::InvalidSpec, "hooks.now", "is empty; the sweep needs a clock"};
  return ActiveSweep(options, hooks, fingerprint, earlier).run();
}

} // namespace mc2::profiler
