#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/profiler/bench.hpp"
#include "mc2/profiler/recalibrate.hpp"
#include "mc2/profiler/statistics.hpp"
#include "mc2/profiler/tune_hooks.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// A cut that races, and its times in us; entry i of every list was taken within moments of the others.
struct Contender {
  planner::Cut cut;
  planner::Variant variant;
  std::vector<double> fused_us;
  std::vector<double> serial_us;        ///< of the run next to each fused one
  std::vector<double> compute_us;       ///< the variant's uncut matmul alone, local part included
  std::vector<double> communication_us; ///< the variant's uncut collective alone
  bool is_serial = false;               ///< its runs are serial's own: what has one lane at a time cannot win
  std::string measured_at = {};         ///< Bench::date()

  [[nodiscard]] planner::Validation validation() const;
};

struct RaceSettings {
  int min_rounds = 6; ///< whatever the budget: the fewest pairs whose median has a 95 % interval
  int max_rounds = 61;
  double relative_half_width = 0.01; ///< of every contender's fused/serial interval
  /// after which no round starts; finding the serial variant and warm-up count
  std::chrono::milliseconds budget{60'000};
  bool times_parts = true; ///< whether the uncut parts are timed, too, which recalibration needs

  /// So many, however wide the intervals are then.
  void take_rounds(int count) {
    min_rounds = max_rounds = count;
    relative_half_width = 0;
  }

  /// Errors: InvalidSpec naming the setting: rounds 1 <= min <= max, width and budget >= 0.
  [[nodiscard]] Result<void> validate() const;
};

/// Everything that one race measured; entry i of every list was taken within moments of the others.
struct Race {
  std::vector<Contender> contenders;
  planner::Variant serial_variant;      ///< the fastest uncut
  std::vector<double> compute_us;       ///< its matmul alone, of all rows
  std::vector<double> communication_us; ///< its collective alone
  int round_count = 0;
  double timed_us = 0; ///< all that was timed, in sum

  /// Median over rounds of (serial - fused) / (serial - max(compute, communication)) with its 95 % interval.
  [[nodiscard]] Interval overlap_efficiency(const Contender& contender) const;

  /// Of serial itself: the median of all its runs, which is no faster than itself.
  [[nodiscard]] planner::Validation serial_validation() const;
};

/// Runs every contender next to a serial run, in rounds of alternating order, with the uncut parts alone in between.
/// Serial is what one has without mc2, with the variant that is fastest at it: the uncut operator, whose lanes follow
/// each other; where a local part would overlap, its collective and then its matmul, each on its own.
/// Errors: InvalidSpec (settings); as Bench::prepare; Cancelled. Throws SystemError.
[[nodiscard]] Result<Race> race(Bench& bench, std::span<const planner::Plan> plans, const RaceSettings& settings,
                                const std::string& label, const TuneHooks& hooks = {});

/// What recalibration learns from: the contender as it ran, beside its variant's uncut parts.
[[nodiscard]] RaceObservation observation_of(const Contender& contender);

/// Rounds that a race will still take if they go on like this: until every interval should be narrow, which falls with
/// the square root of their number, or the budget ends.
/// @param round_time  of one round, above 0
[[nodiscard]] int missing_rounds(const Race& race, const RaceSettings& settings, std::chrono::nanoseconds round_time,
                                 std::chrono::nanoseconds budget_left);

/// The contender that is kept: the whole 95 % interval of its benefit in the first race is above zero, and no race
/// shows it to be slower than serial beyond the noise; of several, the one whose worst benefit over the races is
/// largest. -1 when there is none.
/// @param races  at least one, all of the same contenders: the same calls timed in other ways
[[nodiscard]] int winner_of(std::span<const Race> races);

} // namespace mc2::profiler

#pragma GCC visibility pop
