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

/// A cut that races, with its times in us. The entries i of all lists were measured within moments of each other.
struct Contender {
  planner::Cut cut;
  planner::Variant variant;
  std::vector<double> fused_us;
  std::vector<double> serial_us;        ///< the serial run next to each fused run
  std::vector<double> compute_us;       ///< the variant's uncut matmul alone, local part included
  std::vector<double> communication_us; ///< the variant's uncut collective alone
  bool is_serial = false;               ///< its schedule is itself serial, so it cannot win
  std::string measured_at = {};         ///< Bench::date()
  double confidence = 0.95; ///< of its benefit's interval; race() makes it such that all of a race's hold with 95 %

  [[nodiscard]] planner::Validation validation() const;
};

struct RaceSettings {
  int min_rounds = 6; ///< run whatever the budget; default: the fewest pairs whose median has a 95 % interval
  int max_rounds = 61;
  /// Whether both limits are raised to the fewest rounds with which all contenders' intervals hold together. A race
  /// that only screens goes without.
  bool proves = true;
  double relative_half_width = 0.01; ///< the race ends when every contender's fused/serial interval is this narrow
  /// No round starts after this time, except the first min_rounds. Finding the serial variant and warming up count.
  std::chrono::milliseconds budget{60'000};
  bool times_parts = true; ///< whether the uncut parts are timed as well; recalibration needs them

  /// Runs this many rounds, whatever the width of the intervals; more only by `proves`.
  void take_rounds(int count) {
    min_rounds = max_rounds = count;
    relative_half_width = 0;
  }

  /// Errors: InvalidSpec naming the setting: rounds 1 <= min <= max, width and budget >= 0.
  [[nodiscard]] Result<void> validate() const;
};

/// Everything that one race measured. The entries i of all lists were measured within moments of each other.
struct Race {
  std::vector<Contender> contenders;
  planner::Variant serial_variant;      ///< the variant with the fastest serial run
  std::vector<double> compute_us;       ///< its matmul alone, all rows
  std::vector<double> communication_us; ///< its collective alone
  int round_count = 0;
  double timed_us = 0; ///< sum of all timed runs, warm-up rounds included

  /// Median over rounds of (serial - fused) / (serial - max(compute, communication)) with its 95 % interval.
  [[nodiscard]] Interval overlap_efficiency(const Contender& contender) const;

  /// The validation of serial itself: fused and serial time are both the median of all its runs, so the benefit is 0.
  [[nodiscard]] planner::Validation serial_validation() const;
};

/// Runs every contender next to a serial run, in rounds of alternating order. Each round also times the uncut parts
/// alone, unless settings say otherwise. Serial is the uncut operator as it runs without mc2, one lane after the other,
/// with the variant that is fastest at it. A local part does not overlap there: the collective runs first, then the
/// whole matmul. Errors: InvalidSpec (settings); as Bench::prepare; Cancelled. Throws SystemError.
[[nodiscard]] Result<Race> race(Bench& bench, std::span<const planner::Plan> plans, const RaceSettings& settings,
                                const std::string& label, const TuneHooks& hooks = {});

/// The observation that recalibration learns from: medians of the contender's times and of its variant's uncut parts.
[[nodiscard]] planner::MeasuredCut observation_of(const Contender& contender);

/// Estimate of the rounds that a race still takes: until every interval should be narrow enough or the budget ends. The
/// width of an interval falls with the square root of the number of rounds.
/// @param round_time  duration of one round, above 0
[[nodiscard]] int missing_rounds(const Race& race, const RaceSettings& settings, std::chrono::nanoseconds round_time,
                                 std::chrono::nanoseconds budget_left);

/// Index of the contender to keep, or -1 when there is none. The whole interval of its benefit in the first race is
/// above zero, and in no race the whole interval is below zero. The intervals of all contenders hold together with 95
/// %, so of races of cuts that gain nothing 2.5 % keep one at most, given as many rounds as that takes. Of several such
/// contenders, the one with the largest worst benefit over the races wins.
/// @param races  at least one. All have the same contenders, but may time them in different ways
[[nodiscard]] int winner_of(std::span<const Race> races);

} // namespace mc2::profiler

#pragma GCC visibility pop
