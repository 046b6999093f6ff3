#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/profiler/fit.hpp"

namespace mc2::profiler::fit {

/// What a family is fitted to. Points are valid, distinct in size and ascending; at least one.
struct FamilyInput {
  std::span<const FitPoint> points;
  planner::CurveAxis axis = planner::CurveAxis::Rows;
  double robust_scale = 0.05;
  bool is_fold = false; ///< one size is left out for cross-validation: a family may make do with a point less
};

/// A curve family: one row of the table in family.cpp. Its fit is a file of its own.
struct Family {
  std::string_view name;
  int min_point_count;
  int parameter_count; ///< each knot counts as one; 0 for as many as there are points
  /// Empty when the points cannot carry the family.
  std::optional<planner::CostCurve::Shape> (*fit)(const FamilyInput&);

  /// Passes through every point, so that it explains none: chosen only when nothing else predicts.
  [[nodiscard]] bool is_last_resort() const noexcept { return parameter_count == 0; }
};

/// All families, the simplest first and a last resort last: a later one is chosen only if it predicts clearly better.
[[nodiscard]] std::span<const Family> families() noexcept;

/// Sizes and times divided by their largest, so that parameters are of order 1 whatever the unit.
struct ScaledPoints {
  std::vector<double> x;
  std::vector<double> time;
  double x_scale = 1;
  double time_scale = 1;
};

[[nodiscard]] ScaledPoints scale_points(std::span<const FitPoint> points);

} // namespace mc2::profiler::fit
