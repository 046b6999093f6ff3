#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

namespace mc2::cli {

/// The numbers of measurements after which a plan is judged.
inline constexpr std::array kMeasurementCounts{7, 8, 9, 11, 13, 15, 19, 23, 27, 31, 39, 47, 63, 95, 127, 191};

/// The goals: largest regret of the median machine and of the worst machine.
inline constexpr double kMedianGoal = 0.02, kWorstGoal = 0.05;

/// Regret of the plan after each of kMeasurementCounts: how much slower it is than the best cut, relative to the
/// best.
using Course = std::map<int, double>;

/// A way of choosing measurements, with its results.
struct Method {
  std::string name;
  std::vector<Course> courses; ///< one per machine, not empty

  /// Quantile q (0..1) of the regrets over the machines, after `count` measurements.
  [[nodiscard]] double quantile_at(int count, double q) const;
  /// The fewest measurements from which on both goals hold; 0 when they never do.
  [[nodiscard]] int reached() const;
};

/// A table of median, p95 and worst regret over the number of measurements, and from which number on each method meets
/// the goals.
[[nodiscard]] std::string quality_table(const std::vector<Method>& methods);

/// The table's median and worst regret as a self-contained SVG document: one panel each, one line per method, the goals
/// marked. At most five methods.
[[nodiscard]] std::string quality_chart(const std::vector<Method>& methods);

} // namespace mc2::cli
