#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mc2/profiler/active.hpp"
#include "mc2/profiler/fit.hpp"
#include "mc2/profiler/sweep.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

struct ActiveOptions {
  ActiveQuestion question;         ///< its incumbent is replaced by the plan of the model fitted so far
  int max_measurement_count = 128; ///< timed visits, earlier ones included; the round that passes it is cut short
  int warmup_count = 1;            ///< untimed runs of a case before its first visit
  std::chrono::milliseconds budget{60'000}; ///< no new round starts after this, except the first
  FitOptions fit;

  /// Errors: InvalidSpec naming the option: question as ActiveQuestion::validate, at least kMinActiveMeasurements
  /// measurements, counts and budget >= 0, fit as FitOptions::validate.
  [[nodiscard]] Result<void> validate() const;
};

/// What the first round takes: three sizes of two lanes, and both lanes together.
inline constexpr int kMinActiveMeasurements = 7;

/// One round, and what it did to the expected regret.
struct ActiveRound {
  std::vector<ActiveCase> cases;
  double regret_before = 0; ///< relative to the makespan; negative: not known, as before the first round
  double regret_after = 0;
  planner::Cut plan; ///< of the model fitted after the round; empty while no model fits
  /// "round 2: compute 640 rows, ...: expected regret 1.8 % -> 0.6 %; plan 4 x 256"
  [[nodiscard]] std::string text() const;
  int number = 0;
  planner::CutAxis axis = planner::CutAxis::Rows; ///< what the cases' lengths count
};

struct ActiveProgress {
  int measurement_count = 0;
  int max_measurement_count = 0;
  double regret = 0; ///< expected, relative; negative while not known
  std::chrono::milliseconds elapsed{0};
  std::chrono::milliseconds remaining{0}; ///< at most, from the time of a visit so far
};

/// What an active sweep needs from the world. All are called on the sweep's thread.
struct ActiveHooks {
  /// What times a case; asked once for each. Errors end the sweep and are returned.
  std::function<Result<SweepCase>(const ActiveCase&)> make_case;
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(const ActiveProgress&)> on_progress; ///< after each visit; may be empty
  std::function<void(const ActiveRound&)> on_round;       ///< after each round; may be empty
  /// As SweepHooks::on_samples.
  std::function<void(std::span<const planner::Sample>)> on_samples;
  std::function<bool()> is_cancelled; ///< asked before each visit; may be empty
};

struct ActiveSummary {
  std::vector<planner::Sample> samples; ///< earlier ones, then the new ones; outliers of every case marked anew
  std::vector<ActiveRound> rounds;      ///< of this call
  int measurement_count = 0;            ///< timed visits, earlier ones included
  double regret = 0;                    ///< expected, relative, when it ended; negative while not known
  ActiveStop stop = ActiveStop::NotYet; ///< NotYet: a budget ended it
  std::string termination;              ///< one sentence
};

/// Measures what `advise` asks for, round by round, until it says stop or a budget is spent. After each round the cost
/// model is fitted, and the plan it gives is the incumbent whose regret counts.
/// Drift: a round's cases are timed within moments of each other, so that estimate_drift sees each round; the belief
/// knows a factor of its own per round. The order within a round is the advice's; a pair comes after its lanes alone.
/// @param earlier samples of the same operator and fingerprint; they count as measurements, new rounds are numbered
///                after them
/// Errors: InvalidSpec (no make_case or now, bad options), Cancelled (after on_samples has received everything), those
/// of make_case. Exceptions of a case's `measure` pass through, after on_samples.
[[nodiscard]] Result<ActiveSummary> run_active_sweep(const ActiveOptions& options, const ActiveHooks& hooks,
                                                     const planner::Fingerprint& fingerprint,
                                                     std::span<const planner::Sample> earlier);

} // namespace mc2::profiler

#pragma GCC visibility pop
