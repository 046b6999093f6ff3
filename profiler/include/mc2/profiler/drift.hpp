#pragma once

#include <map>
#include <span>

#pragma GCC visibility push(default)

namespace mc2::profiler {

/// One timing as a cell of a two-way table.
struct DriftCell {
  int row = 0;        ///< what was timed: one size of one component
  int round = 0;      ///< when it was timed: cells of one round were timed within moments of each other
  double time_us = 0; ///< > 0
};

/// How slow the machine was in each round, relative to its median round.
struct Drift {
  struct Round {
    double factor = 1;         ///< times of this round / times of the median round
    bool is_estimated = false; ///< false where the round has too few rows: `factor` is the nearest estimated round's
  };
  std::map<int, Round> rounds;

  /// 1 for a round that was not in the table.
  [[nodiscard]] double factor(int round) const;
  [[nodiscard]] bool is_estimated(int round) const;
  /// Largest / smallest estimated factor; 1 when nothing was estimated.
  [[nodiscard]] double range() const;
};

/// Rows that a round needs before its factor is trusted. With fewer, the factor would follow the noise of the times
/// that it has to correct.
inline constexpr int kMinDriftRows = 4;

/// Separates the effect of the row from that of the round: log time = row + round + noise, by alternating medians. A
/// row timed only in slow rounds then compares fairly with a row timed in fast rounds, and a median ignores the
/// occasional interrupted sample. Source: median polish, Tukey, Exploratory Data Analysis, 1977, ch. 11;
/// docs/cost_model.md.
[[nodiscard]] Drift estimate_drift(std::span<const DriftCell> cells);

} // namespace mc2::profiler

#pragma GCC visibility pop
