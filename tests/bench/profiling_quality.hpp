#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

namespace mc2::cli {

/// After how many measurements a plan is judged.
inline constexpr std::array kMeasurementCounts{7, 8, 9, 11, 13, 15, 19, 23, 27, 31, 39, 47, 63, 95, 127, 191};

/// The regrets aimed at: of the median machine and of the worst one.
inline constexpr double kMedianGoal = 0.02, kWorstGoal = 0.05;

/// Regret of the plan after each of kMeasurementCounts: how much slower it is than the best cut, relative to the
/// best.
using Course = std::map<int, double>;

/// A way of choosing what to measure, and what it led to.
struct Method {
  std::string name;
  std::vector<Course> courses; ///< one per machine, not empty

  /// Over the machines; q in 0..1.
  [[nodiscard]] double quantile_at(int count, double q) const;
  /// The fewest measurements from which on both goals hold; 0 when they never do.
  [[nodiscard]] int reached() const;
};

/// Median, p95 and worst regret against the number of measurements, and from where on each method meets the goals.
[[nodiscard]] std::string quality_table(const std::vector<Method>& methods);

/// The table's median and worst as a drawing: one panel each, one line per method, the goals marked. A complete SVG
/// document that needs nothing else. At most five methods.
[[nodiscard]] std::string quality_chart(const std::vector<Method>& methods);

} // namespace mc2::cli
