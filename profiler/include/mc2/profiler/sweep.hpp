#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/stopping_rule.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// One thing to time. `measure` runs it once and returns the samples of that iteration (a co-run gives one per lane),
/// at least one; the sweep fills in `round`. The stopping rule watches the first sample.
struct SweepCase {
  std::string name; ///< for progress and summaries, e.g. "matmul 256 rows"
  std::function<std::vector<planner::Sample>()> measure;
  /// Whether a stored sample belongs to this case, so that interrupted work resumes.
  std::function<bool(const planner::Sample&)> owns;
};

struct SweepOptions {
  int warmup_rounds = 2; ///< timed by nobody, recorded nowhere; at most an eighth of the budget
  StoppingOptions stopping;
  std::chrono::milliseconds budget{60'000}; ///< no new round starts after this, except the first
  std::uint64_t seed = 1;                   ///< of the order of cases within a round
  /// Timed visits to cases, earlier ones included, after which it ends; 0 for no limit. With one, rounds take the cases
  /// in the order given: those that come first matter most.
  int max_measurement_count = 0;
  int max_round_count = 0; ///< recorded rounds after which it ends; 0 for no limit
  /// Settled cases, the cheapest of each component, that stay in every round while a case of that component is
  /// unsettled: without them the drift of late rounds could not be told from the size of what is still timed.
  /// Default: what estimate_drift needs.
  int reference_case_count = 4;

  /// Errors: InvalidSpec naming the option: counts and budget >= 0, stopping as StoppingOptions::validate.
  [[nodiscard]] Result<void> validate() const;
};

struct SweepProgress {
  int round = 0;
  int finished_case_count = 0;
  int case_count = 0;
  double fraction = 0; ///< of the expected work, 0..1
  std::chrono::milliseconds elapsed{0};
  std::chrono::milliseconds remaining{0}; ///< estimate
};

/// What the sweep needs from the world. All are called on the sweep's thread.
struct SweepHooks {
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(const SweepProgress&)> on_progress; ///< called after each measurement; may be empty
  /// Called with the new samples after each round, and with those of an unfinished round before the sweep returns
  /// Cancelled or lets an exception of `measure` pass. Outliers are not marked yet. May be empty.
  std::function<void(std::span<const planner::Sample>)> on_samples;
  std::function<bool()> is_cancelled; ///< asked before each measurement; may be empty
};

/// One case's watched samples, as measured (not corrected for drift), outliers included unless said otherwise.
struct CaseSummary {
  std::string name;
  int sample_count = 0;
  int outlier_count = 0;
  double low_quantile_us = 0; ///< at StoppingOptions::quantile
  double median_us = 0;
  double p95_us = 0;
  double noise_ratio = 0; ///< standard deviation / mean, outliers excluded
  std::string stop_reason;
};

struct SweepSummary {
  std::vector<planner::Sample> samples; ///< all earlier ones, then the new ones; outliers of every case marked anew
  std::vector<CaseSummary> cases;
  int round_count = 0;       ///< recorded rounds of this call
  int measurement_count = 0; ///< timed visits to cases, earlier ones included
  std::string termination;   ///< "every size settled", "time budget spent", ...
};

/// Times all cases in rounds, in a new random order each round unless measurements are limited, until every case's
/// stopping rule is satisfied or a budget is spent: sizes are interleaved so that the machine's drift falls on all of
/// them alike. A settled case drops out unless it serves as a reference. The stopping rules and the outlier marks judge
/// times divided by the drift factor of their round (drift.hpp). The order depends on the seed and the first round's
/// number only: the same on every standard library.
/// @param earlier samples of the same operator and fingerprint from interrupted work; they count, and new rounds are
///                numbered after them
/// Errors: InvalidSpec (no cases, a case without `measure` or `owns`, no `now`, bad options), Cancelled (after
/// on_samples has received everything measured). Exceptions of `measure` pass through.
[[nodiscard]] Result<SweepSummary> run_sweep(std::span<const SweepCase> cases, const SweepOptions& options,
                                             const SweepHooks& hooks, std::span<const planner::Sample> earlier);

/// Block lengths worth timing for a cut axis of `rows`: 256, 512, 768, 1024, 2048 and further doublings where they
/// fit, short ones down to the alignment, fractions of the axis and the whole of it; ascending, each at most `rows`.
/// Short axes are filled up with finer steps, below the alignment if need be, to 6 lengths: enough for the piecewise
/// family. Fewer only when rows < 6; empty when rows < 1. An alignment below 1 counts as 1.
[[nodiscard]] std::vector<std::int64_t> sweep_block_rows(std::int64_t rows, std::int64_t alignment);

/// Ascending values in the order in which few of them say most: the last, the first, the middle one, then the middles
/// of what is left.
[[nodiscard]] std::vector<std::int64_t> coarse_to_fine(std::span<const std::int64_t> ascending);

} // namespace mc2::profiler

#pragma GCC visibility pop
