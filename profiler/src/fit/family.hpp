#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/profiler/fit.hpp"

namespace mc2::profiler::fit {

/// The input of a family's fit. There is at least one point; points are valid, distinct in size and ascending.
struct FamilyInput {
  std::span<const FitPoint> points;
  planner::CurveAxis axis = planner::CurveAxis::Rows;
  double robust_scale = 0.05;
  bool is_fold = false; ///< a fold is left out for cross-validation: a family may accept one point less
};

/// A curve family: one row of the table in family.cpp. The fit of each family has its own file.
struct Family {
  std::string_view name;
  int min_point_count;
  int parameter_count; ///< a knot counts as one parameter; 0: as many parameters as points
  /// Empty when the family cannot be fitted to the points.
  std::optional<planner::CostCurve::Shape> (*fit)(const FamilyInput&);

  /// A last resort passes through every point, so it explains none. It is chosen only when no other family predicts
  /// well.
  [[nodiscard]] bool is_last_resort() const noexcept { return parameter_count == 0; }
};

/// All families, the simplest first and a last resort last: a later one is chosen only if it predicts clearly better.
[[nodiscard]] std::span<const Family> families() noexcept;

/// Sizes and times, each divided by its largest value, so that parameters are of order 1 whatever the unit.
struct ScaledPoints {
  std::vector<double> x;
  std::vector<double> time;
  double x_scale = 1;
  double time_scale = 1;
};

[[nodiscard]] ScaledPoints scale_points(std::span<const FitPoint> points);

} // namespace mc2::profiler::fit
