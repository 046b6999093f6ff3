#include "fit/family.hpp"

#include <algorithm>
#include <array>

namespace mc2::profiler::fit {

// Each function is defined in a file of its own.
std::optional<planner::CostCurve::Shape> fit_affine(const FamilyInput& input);
std::optional<planner::CostCurve::Shape> fit_piecewise(const FamilyInput& input);
std::optional<planner::CostCurve::Shape> fit_staircase(const FamilyInput& input);
/// Continuous line pieces with 2, 3 or 4 knots.
template <std::size_t kKnots>
std::optional<planner::CostCurve::Shape> fit_segments(const FamilyInput& input);
std::optional<planner::CostCurve::Shape> fit_interpolated(const FamilyInput& input);

namespace {

constexpr std::array kFamilies{
    Family{"affine", 3, 2, &fit_affine},
    Family{"staircase", 8, 4, &fit_staircase},
    Family{"piecewise", 6, 6, &fit_piecewise},
    Family{"segments with 2 knots", 8, 6, &fit_segments<2>},
    Family{"segments with 3 knots", 10, 8, &fit_segments<3>},
    Family{"segments with 4 knots", 12, 10, &fit_segments<4>},
    Family{"interpolated", 6, 0, &fit_interpolated},
};

} // namespace

std::span<const Family> families() noexcept { return kFamilies; }

ScaledPoints scale_points(std::span<const FitPoint> points) {
  ScaledPoints scaled;
  scaled.x_scale = points.back().x;
  scaled.time_scale = points.front().time_us;
  for (const FitPoint& point : points) scaled.time_scale = std::max(scaled.time_scale, point.time_us);
  for (const FitPoint& point : points) {
    scaled.x.push_back(point.x / scaled.x_scale);
    scaled.time.push_back(point.time_us / scaled.time_scale);
  }
  return scaled;
}

} // namespace mc2::profiler::fit
