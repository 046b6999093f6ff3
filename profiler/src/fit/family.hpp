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

/// A curve family: one row of the table in family.cpp.
struct Family {
  std::string_view name;
  int min_point_count;
  int parameter_count; ///< the knot counts as one
  /// Empty when the points cannot carry the family.
  std::optional<planner::CostCurve::Shape> (*fit)(const FamilyInput&);
};

/// All families, the simplest first: a later one is chosen only if it predicts clearly better.
[[nodiscard]] std::span<const Family> families() noexcept;

[[nodiscard]] std::optional<planner::CostCurve::Shape> fit_affine(const FamilyInput& input);
[[nodiscard]] std::optional<planner::CostCurve::Shape> fit_piecewise(const FamilyInput& input);

/// Sizes and times divided by their largest, so that parameters are of order 1 whatever the unit.
struct ScaledPoints {
  std::vector<double> x;
  std::vector<double> time;
  double x_scale = 1;
  double time_scale = 1;
};

[[nodiscard]] ScaledPoints scale_points(std::span<const FitPoint> points);

} // namespace mc2::profiler::fit
