#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/profiler/stopping_rule.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// One case to time.
struct SweepCase {
  std::string name; ///< for progress and summaries, e.g. "matmul 256 rows"
  /// Runs the case once and returns the samples of that iteration, at least one; a co-run gives one per lane. The sweep
  /// fills in `round`. The stopping rule watches the first sample.
  std::function<std::vector<planner::Sample>()> measure;
  /// Whether a stored sample belongs to this case; interrupted work resumes with it.
  std::function<bool(const planner::Sample&)> owns;
};

struct SweepOptions {
  int warmup_rounds = 2; ///< rounds whose samples are discarded; they end after an eighth of the budget
  StoppingOptions stopping;
  std::chrono::milliseconds budget{60'000}; ///< no new round starts after this, except the first
  std::uint64_t seed = 1;                   ///< for the order of cases within a round
  /// The sweep ends after this many timed visits to cases, earlier ones included; 0 for no limit. With a limit, rounds
  /// visit the cases in the order given, so put the most important ones first.
  int max_measurement_count = 0;
  int max_round_count = 0; ///< the sweep ends after this many recorded rounds; 0 for no limit

  /// Errors: InvalidSpec naming the option: counts and budget >= 0, stopping as StoppingOptions::validate.
  [[nodiscard]] Result<void> validate() const;
};

/// Progress of a sweep, or of another step of a tuning.
struct Progress {
  std::string label;   ///< names the step of a tuning, e.g. "profile matmul_all_reduce m=1024 ..."; empty in a sweep
  double fraction = 0; ///< share of the step's expected work that is done, 0..1
  std::chrono::milliseconds remaining{0}; ///< estimate for the step
  std::string detail;                     ///< e.g. "12 of 48 cases settled"
  /// Time until the budget of the whole tuning is spent; empty when a step runs outside tune().
  std::optional<std::chrono::milliseconds> budget_left = std::nullopt;
};

/// Callbacks of the sweep. All are called on the sweep's thread.
struct SweepHooks {
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(const Progress&)> on_progress; ///< called after each measurement; may be empty
  /// Called with the new samples after each round. Also called with the samples of an unfinished round before the sweep
  /// returns Cancelled or lets an exception of `measure` pass. Outliers are not marked yet. May be empty.
  std::function<void(std::span<const planner::Sample>)> on_samples;
  std::function<bool()> is_cancelled; ///< asked before each measurement; may be empty
};

/// Statistics of one case's watched samples, as measured (not corrected for drift). Outliers are included unless a
/// member says otherwise.
struct CaseSummary {
  std::string name;
  int sample_count = 0;
  int outlier_count = 0;
  double low_quantile_us = 0; ///< at kLowQuantile
  double median_us = 0;
  double p95_us = 0;
  double noise_ratio = 0; ///< standard deviation / mean, outliers excluded
  std::string stop_reason;
};

struct SweepSummary {
  std::vector<planner::Sample> samples; ///< earlier samples, then new ones; outliers of every case are marked anew
  std::vector<CaseSummary> cases;
  int round_count = 0;       ///< recorded rounds of this call
  int measurement_count = 0; ///< timed visits to cases, earlier ones included
  std::string termination;   ///< "every size settled", "time budget spent", ...
};

/// Times all cases in rounds until every case's stopping rule is satisfied or a limit of the options is reached. Sizes
/// are interleaved so that the machine's drift affects all of them alike. A finished case drops out unless it serves as
/// a reference. The stopping rules and the outlier marks judge times divided by the drift factor of their round
/// (drift.hpp).
/// Order: random and new in each round, or as given with a limit on measurements. The random numbers depend only on the
/// seed and the first round's number, and are the same with every standard library.
/// @param earlier samples of the same operator and fingerprint from interrupted work. They count as measured, and new
///                rounds are numbered after theirs
/// Errors: InvalidSpec (no cases, a case without `measure` or `owns`, no `now`, bad options), Cancelled (after
/// on_samples has received everything measured). Exceptions of `measure` pass through.
[[nodiscard]] Result<SweepSummary> run_sweep(std::span<const SweepCase> cases, const SweepOptions& options,
                                             const SweepHooks& hooks, std::span<const planner::Sample> earlier);

/// Block lengths worth timing for a cut axis of `rows`, ascending, each at most `rows`: 256, 512, 768, 1024, 2048 and
/// further doublings where they fit, shorter ones down to the alignment, fractions of the axis, and the whole axis.
/// Short axes get finer steps as well, below the alignment if necessary, until there are 6 lengths, which the piecewise
/// family needs. There are fewer only when rows < 6, and none when rows < 1. An alignment below 1 counts as 1.
[[nodiscard]] std::vector<std::int64_t> sweep_block_rows(std::int64_t rows, std::int64_t alignment);

/// Reorders ascending values so that any first few of them cover the range well: the last, the first, the middle one,
/// then the middles of the remaining gaps.
[[nodiscard]] std::vector<std::int64_t> coarse_to_fine(std::span<const std::int64_t> ascending);

} // namespace mc2::profiler

#pragma GCC visibility pop
