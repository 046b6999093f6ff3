#pragma once

#include <map>
#include <span>

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// One timing as a cell of a two-way table.
struct DriftCell {
  int row = 0;        ///< what was timed: one size of one component
  int round = 0;      ///< when: cells of one round were timed within moments of each other
  double time_us = 0; ///< > 0
};

/// How slow the machine was in each round, relative to its median round.
struct Drift {
  struct Round {
    double factor = 1;         ///< times of this round / times of the median round
    bool is_estimated = false; ///< false: too few rows; the factor is the nearest estimated round's
  };
  std::map<int, Round> rounds;

  /// 1 for a round that was not in the table.
  [[nodiscard]] double factor(int round) const;
  [[nodiscard]] bool is_estimated(int round) const;
  /// Largest / smallest estimated factor; 1 when nothing was estimated.
  [[nodiscard]] double range() const;
};

/// Rows that a round needs before its factor is trusted: with fewer, the factor would follow the noise of the very
/// times it is to correct.
inline constexpr int kMinDriftRows = 4;

/// Separates what was timed from when: log time = row + round + noise, by alternating medians, so that a row timed
/// only in slow rounds compares fairly with one timed in fast rounds.
/// Source: median polish, Tukey, Exploratory Data Analysis, 1977, ch. 11; docs/cost_model.md. A median ignores the
/// occasional interrupted sample.
[[nodiscard]] Drift estimate_drift(std::span<const DriftCell> cells);

} // namespace mc2::profiler

#pragma GCC visibility pop
