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

namespace mc2::profiler {

/// One thing to time. `measure` runs it once and returns the samples of that iteration (a co-run gives one per lane);
/// the sweep fills in `round`. The stopping rule watches the first sample.
struct SweepCase {
  std::string name; ///< for progress and summaries, e.g. "matmul 256 rows"
  std::function<std::vector<planner::Sample>()> measure;
  /// Whether a stored sample belongs to this case, so that interrupted work resumes.
  std::function<bool(const planner::Sample&)> owns;
};

struct SweepOptions {
  int warmup_rounds = 2;
  StoppingOptions stopping;
  std::chrono::milliseconds budget{120'000}; ///< no new round starts after this
  std::uint64_t seed = 1;                    ///< of the order of cases within a round
};

struct SweepProgress {
  int round = 0;
  int finished_case_count = 0;
  int case_count = 0;
  double fraction = 0; ///< of the expected work, 0..1
  std::chrono::milliseconds elapsed{0};
  std::chrono::milliseconds remaining{0}; ///< estimate
};

/// What the sweep needs from the world.
struct SweepHooks {
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<void(const SweepProgress&)> on_progress;             ///< may be empty
  std::function<void(std::span<const planner::Sample>)> on_samples;  ///< called after each round; may be empty
  std::function<bool()> is_cancelled;                                ///< may be empty
};

struct CaseSummary {
  std::string name;
  int sample_count = 0;
  int outlier_count = 0;
  double low_quantile_us = 0;
  double median_us = 0;
  double p95_us = 0;
  double noise_ratio = 0; ///< standard deviation / mean, outliers excluded
  std::string stop_reason;
};

struct SweepSummary {
  std::vector<planner::Sample> samples; ///< resumed and new, outliers marked
  std::vector<CaseSummary> cases;
  int round_count = 0;
  std::string termination; ///< "every size settled", "time budget spent", ...
};

/// Times all cases in rounds, in a new random order each round, until every case's stopping rule is satisfied or the
/// budget is spent: sizes are interleaved so that the machine's drift falls on all of them alike.
/// @param earlier samples of the same operator and fingerprint from interrupted work; they count
/// Errors: InvalidSpec (no cases, bad options), Cancelled (after on_samples has received everything measured).
[[nodiscard]] planner::Result<SweepSummary> run_sweep(std::span<const SweepCase> cases, const SweepOptions& options,
                                                      const SweepHooks& hooks,
                                                      std::span<const planner::Sample> earlier);

/// Block lengths worth timing for a cut axis of `rows`: 256, 512, 768, 1024, 2048 where they fit, short ones down to
/// the alignment, fractions of the axis and the whole of it; ascending, each at most `rows`.
[[nodiscard]] std::vector<std::int64_t> sweep_block_rows(std::int64_t rows, std::int64_t alignment);

} // namespace mc2::profiler
