#include "mc2/profiler/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <random>
#include <utility>

#include "mc2/planner/units.hpp"
#include "mc2/profiler/drift.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/profiler/stopping_rule.hpp"

namespace mc2::profiler {
namespace {

using planner::Component;
using planner::Sample;
using Clock = std::chrono::steady_clock;

/// Uniform in 0..limit-1. std::uniform_int_distribution gives another sequence on every standard library.
std::size_t draw_below(std::mt19937_64& random, std::size_t limit) {
  const std::uint64_t range = limit;
  const std::uint64_t unbiased_end = std::numeric_limits<std::uint64_t>::max() / range * range;
  std::uint64_t value = random();
  while (value >= unbiased_end) value = random();
  return static_cast<std::size_t>(value % range);
}

/// Fisher and Yates.
void shuffle(std::vector<std::size_t>& order, std::mt19937_64& random) {
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw_below(random, i)]);
}

/// State of one case during the sweep.
struct CaseState {
  std::vector<std::size_t> watched;                           ///< indices of the first sample of every iteration
  std::map<Component, std::vector<std::size_t>> of_component; ///< indices of all its samples
  Clock::duration busy{0};                                    ///< time spent in `measure`, warm-up included
  int run_count = 0;
  int expected_count = 0; ///< samples after which it should be settled
  bool is_finished = false;
  bool is_settled = false;
  std::string stop_reason;
};

class Sweep {
 public:
  Sweep(std::span<const SweepCase> cases, const SweepOptions& options, const SweepHooks& hooks,
        std::span<const Sample> earlier)
      : cases_(cases), options_(options), hooks_(hooks), start_(hooks.now()), states_(cases.size()) {
    adopt(earlier);
    random_.seed(options.seed + static_cast<std::uint64_t>(round_));
    judge();
  }

  Result<SweepSummary> run();

 private:
  void adopt(std::span<const Sample> earlier);
  bool warm_up();
  bool run_round();
  void measure(std::size_t index);
  void flush(std::size_t first_new);
  void judge();
  [[nodiscard]] std::map<Component, Drift> estimate_drifts() const;
  [[nodiscard]] std::vector<double> steady_times(const std::vector<std::size_t>& samples,
                                                 const std::map<Component, Drift>& drifts) const;
  void mark_outliers();
  void report();

  [[nodiscard]] std::vector<std::size_t> next_order();
  [[nodiscard]] std::vector<std::size_t> references() const;
  [[nodiscard]] double mean_cost_s(const CaseState& state) const;
  [[nodiscard]] double remaining_s() const;
  [[nodiscard]] bool is_cancelled() const { return hooks_.is_cancelled && hooks_.is_cancelled(); }
  [[nodiscard]] bool is_budget_spent() const { return hooks_.now() - start_ >= options_.budget; }
  [[nodiscard]] int measurement_count() const;
  /// Timed visits to cases that the limit still allows.
  [[nodiscard]] std::size_t measurements_left() const;
  [[nodiscard]] bool is_warm_up_spent() const { return hooks_.now() - start_ >= options_.budget / kWarmUpShare; }
  [[nodiscard]] std::ptrdiff_t finished_count() const {
    return std::count_if(states_.begin(), states_.end(), [](const CaseState& state) { return state.is_finished; });
  }
  [[nodiscard]] bool is_finished() const { return finished_count() == std::ssize(states_); }
  [[nodiscard]] Error cancelled() const;
  [[nodiscard]] std::string termination() const;
  [[nodiscard]] CaseSummary summarise(std::size_t index) const;

  std::span<const SweepCase> cases_;
  const SweepOptions& options_;
  const SweepHooks& hooks_;
  Clock::time_point start_;
  std::vector<CaseState> states_;
  std::vector<Sample> samples_;
  std::mt19937_64 random_;
  int round_ = 0; ///< number of the next recorded round
  int round_count_ = 0;
  double fraction_ = 0;
};

/// Takes over earlier samples. A case's first sample of each round counts as the watched one, because samples are kept
/// in measured order.
void Sweep::adopt(std::span<const Sample> earlier) {
  samples_.assign(earlier.begin(), earlier.end());
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const Sample& sample = samples_[i];
    round_ = std::max(round_, sample.round + 1);
    for (std::size_t index = 0; index < cases_.size(); ++index) {
      if (!cases_[index].owns(sample)) continue;
      CaseState& state = states_[index];
      state.of_component[sample.component].push_back(i);
      const bool is_first = std::none_of(state.watched.begin(), state.watched.end(),
                                         [&](std::size_t watched) { return samples_[watched].round == sample.round; });
      if (is_first) state.watched.push_back(i);
      break;
    }
  }
}

Result<SweepSummary> Sweep::run() {
  if (!is_finished() && !warm_up()) return cancelled();
  const auto is_spent = [&] {
    if (options_.max_round_count > 0 && round_count_ >= options_.max_round_count) return true;
    return measurements_left() == 0 || (round_count_ > 0 && is_budget_spent());
  };
  while (!is_finished() && !is_spent()) {
    if (!run_round()) return cancelled();
  }
  mark_outliers();
  SweepSummary summary;
  for (std::size_t i = 0; i < cases_.size(); ++i) summary.cases.push_back(summarise(i));
  summary.samples = std::move(samples_);
  summary.round_count = round_count_;
  summary.measurement_count = measurement_count();
  summary.termination = termination();
  return summary;
}

bool Sweep::warm_up() {
  for (int i = 0; i < options_.warmup_rounds; ++i) {
    for (const std::size_t index : next_order()) {
      if (is_cancelled()) return false;
      if (is_warm_up_spent()) return true;
      const Clock::time_point begin = hooks_.now();
      static_cast<void>(cases_[index].measure());
      states_[index].busy += hooks_.now() - begin;
      ++states_[index].run_count;
      report();
    }
  }
  return true;
}

/// False when cancelled. The samples measured so far are handed to on_samples in any case.
bool Sweep::run_round() {
  const std::size_t first_new = samples_.size();
  try {
    for (const std::size_t index : next_order()) {
      if (is_cancelled()) {
        flush(first_new);
        return false;
      }
      measure(index);
      report();
    }
  } catch (...) {
    flush(first_new);
    throw;
  }
  flush(first_new);
  ++round_;
  ++round_count_;
  judge();
  return true;
}

void Sweep::measure(std::size_t index) {
  CaseState& state = states_[index];
  const Clock::time_point begin = hooks_.now();
  std::vector<Sample> measured = cases_[index].measure();
  state.busy += hooks_.now() - begin;
  ++state.run_count;
  MC2_CHECK(!measured.empty(), "a sweep case returned no sample");
  state.watched.push_back(samples_.size());
  for (Sample& sample : measured) {
    sample.round = round_;
    sample.is_outlier = false;
    state.of_component[sample.component].push_back(samples_.size());
    samples_.push_back(std::move(sample));
  }
}

void Sweep::flush(std::size_t first_new) {
  if (!hooks_.on_samples || first_new == samples_.size()) return;
  hooks_.on_samples(std::span<const Sample>(samples_).subspan(first_new));
}

std::map<Component, Drift> Sweep::estimate_drifts() const {
  std::map<Component, std::vector<DriftCell>> cells;
  for (std::size_t index = 0; index < states_.size(); ++index) {
    for (const auto& [component, samples] : states_[index].of_component) {
      for (const std::size_t i : samples) {
        if (samples_[i].time.count() <= 0) continue;
        cells[component].push_back({static_cast<int>(index), samples_[i].round, samples_[i].time_us()});
      }
    }
  }
  std::map<Component, Drift> drifts;
  for (const auto& [component, table] : cells) drifts[component] = estimate_drift(table);
  return drifts;
}

std::vector<double> Sweep::steady_times(const std::vector<std::size_t>& samples,
                                        const std::map<Component, Drift>& drifts) const {
  std::vector<double> times;
  for (const std::size_t i : samples) {
    const auto drift = drifts.find(samples_[i].component);
    times.push_back(samples_[i].time_us() / (drift == drifts.end() ? 1.0 : drift->second.factor(samples_[i].round)));
  }
  return times;
}

/// Asks every unfinished case's stopping rule. The rule starts afresh each time, because a new round improves the drift
/// estimates of earlier rounds.
void Sweep::judge() {
  const std::map<Component, Drift> drifts = estimate_drifts();
  for (CaseState& state : states_) {
    if (state.is_finished) continue;
    StoppingRule rule(options_.stopping);
    for (const double time : steady_times(state.watched, drifts)) rule.add(time);
    state.is_finished = rule.is_finished();
    state.is_settled = rule.is_settled();
    state.expected_count = rule.expected_count();
    state.stop_reason = rule.reason();
  }
}

void Sweep::mark_outliers() {
  const std::map<Component, Drift> drifts = estimate_drifts();
  for (const CaseState& state : states_) {
    for (const auto& [component, samples] : state.of_component) {
      const std::vector<bool> marks = find_outliers(steady_times(samples, drifts));
      for (std::size_t i = 0; i < samples.size(); ++i) samples_[samples[i]].is_outlier = marks[i];
    }
  }
}

double Sweep::mean_cost_s(const CaseState& state) const {
  if (state.run_count == 0) return 0;
  return std::chrono::duration<double>(state.busy).count() / state.run_count;
}

/// The reference cases: for every component of an unfinished case, the cheapest finished cases that time that component
/// alone. They stay in every round: without them, the drift of late rounds could not be separated from the size of the
/// cases that are still timed.
std::vector<std::size_t> Sweep::references() const {
  std::map<Component, std::vector<std::pair<double, std::size_t>>> finished;
  std::map<Component, bool> is_wanted;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    for (const auto& [component, samples] : states_[i].of_component) {
      if (!states_[i].is_finished) is_wanted[component] = true;
      const bool is_single = states_[i].of_component.size() == 1;
      if (states_[i].is_finished && is_single) finished[component].emplace_back(samples_[samples.front()].time_us(), i);
    }
  }
  std::vector<std::size_t> chosen;
  for (auto& [component, candidates] : finished) {
    if (!is_wanted[component]) continue;
    std::sort(candidates.begin(), candidates.end());
    const auto count = std::min(candidates.size(), std::size_t{kMinDriftRows});
    for (std::size_t i = 0; i < count; ++i) chosen.push_back(candidates[i].second);
  }
  return chosen;
}

std::vector<std::size_t> Sweep::next_order() {
  std::vector<std::size_t> order = references();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].is_finished) order.push_back(i);
  }
  std::sort(order.begin(), order.end());
  if (options_.max_measurement_count == 0) shuffle(order, random_);
  order.resize(std::min(order.size(), measurements_left()));
  return order;
}

int Sweep::measurement_count() const {
  std::size_t count = 0;
  for (const CaseState& state : states_) count += state.watched.size();
  return static_cast<int>(count);
}

std::size_t Sweep::measurements_left() const {
  if (options_.max_measurement_count == 0) return std::numeric_limits<std::size_t>::max();
  return static_cast<std::size_t>(std::max(options_.max_measurement_count - measurement_count(), 0));
}

/// Estimate of the remaining time. A case that has not run yet is assumed to cost as much as the others on average.
double Sweep::remaining_s() const {
  const double budget_left_s = std::chrono::duration<double>(options_.budget - (hooks_.now() - start_)).count();
  double known_s = 0, needed_s = 0;
  int known_count = 0, unknown_run_count = 0;
  for (const CaseState& state : states_) {
    if (state.run_count > 0) {
      known_s += mean_cost_s(state);
      ++known_count;
    }
    if (state.is_finished) continue;
    const int missing = std::max(state.expected_count - static_cast<int>(state.watched.size()), 0);
    needed_s += missing * mean_cost_s(state);
    if (state.run_count == 0) unknown_run_count += missing;
  }
  if (known_count == 0) return std::max(budget_left_s, 0.0);
  needed_s += unknown_run_count * known_s / known_count;
  return std::max(std::min(needed_s, budget_left_s), 0.0);
}

void Sweep::report() {
  if (!hooks_.on_progress) return;
  const double elapsed = std::chrono::duration<double>(hooks_.now() - start_).count();
  const double remaining = remaining_s();
  if (elapsed + remaining > 0) fraction_ = std::max(fraction_, elapsed / (elapsed + remaining));
  hooks_.on_progress(
      {.label = {},
       .fraction = std::min(fraction_, 1.0),
       .remaining = std::chrono::milliseconds(std::llround(remaining * 1000)),
       .detail = std::to_string(finished_count()) + " of " + std::to_string(cases_.size()) + " cases settled"});
}

Error Sweep::cancelled() const {
  return {ErrorCode::Cancelled, "",
          "profiling was interrupted in round " + std::to_string(round_count_ + 1) + ", with " +
              std::to_string(finished_count()) + " of " + std::to_string(cases_.size()) +
              " lengths settled; samples that were kept are used again"};
}

std::string Sweep::termination() const {
  const auto unfinished = std::ssize(states_) - finished_count();
  if (unfinished > 0) {
    const std::string spent = measurements_left() == 0 ? "all measurements used" : "time budget spent";
    return spent + " with " + std::to_string(unfinished) + " of " + std::to_string(cases_.size()) + " sizes unsettled";
  }
  const auto unsettled =
      std::count_if(states_.begin(), states_.end(), [](const CaseState& state) { return !state.is_settled; });
  if (unsettled == 0) return "every size settled";
  // Samples that were kept before may be more than the maximum of this sweep.
  return "every size settled or has " + std::to_string(options_.stopping.max_count) +
         " samples or more, the maximum (" + std::to_string(unsettled) + " not settled)";
}

CaseSummary Sweep::summarise(std::size_t index) const {
  const CaseState& state = states_[index];
  CaseSummary summary;
  summary.name = cases_[index].name;
  summary.stop_reason = state.stop_reason;
  std::vector<double> times;
  std::vector<double> ordinary;
  for (const std::size_t i : state.watched) {
    times.push_back(samples_[i].time_us());
    if (!samples_[i].is_outlier) ordinary.push_back(times.back());
  }
  if (times.empty()) return summary;
  summary.sample_count = static_cast<int>(times.size());
  summary.outlier_count = static_cast<int>(times.size() - ordinary.size());
  summary.low_quantile_us = quantile(times, kLowQuantile);
  summary.median_us = quantile(times, 0.5);
  summary.p95_us = quantile(times, 0.95);
  summary.noise_ratio = relative_deviation(ordinary);
  return summary;
}

Result<void> check_arguments(std::span<const SweepCase> cases, const SweepOptions& options, const SweepHooks& hooks) {
  MC2_TRY(options.validate());
  if (!hooks.now) return Error{ErrorCode::InvalidSpec, "hooks.now", "is empty; the sweep needs a clock"};
  if (cases.empty()) return Error{ErrorCode::InvalidSpec, "cases", "is empty; there is nothing to time"};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].measure && cases[i].owns) continue;
    return Error{ErrorCode::InvalidSpec, "cases[" + std::to_string(i) + "]",
                 "'" + cases[i].name + "' needs both 'measure' and 'owns'"};
  }
  return {};
}

} // namespace

Result<void> SweepOptions::validate() const {
  if (warmup_rounds < 0) return Error{ErrorCode::InvalidSpec, "warmup_rounds", "must be 0 or more"};
  if (budget.count() < 0) return Error{ErrorCode::InvalidSpec, "budget", "must be 0 ms or more"};
  if (max_round_count < 0) return Error{ErrorCode::InvalidSpec, "max_round_count", "must be 0, for no limit, or more"};
  if (max_measurement_count < 0)
    return Error{ErrorCode::InvalidSpec, "max_measurement_count", "must be 0, for no limit, or more"};
  return stopping.validate();
}

Result<SweepSummary> run_sweep(std::span<const SweepCase> cases, const SweepOptions& options, const SweepHooks& hooks,
                               std::span<const Sample> earlier) {
  MC2_TRY(check_arguments(cases, options, hooks));
  return Sweep(cases, options, hooks, earlier).run();
}

} // namespace mc2::profiler
