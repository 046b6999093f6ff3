#include <cstddef>
#include <vector>

#include "fit/family.hpp"

namespace mc2::profiler::fit {
namespace {

/// Neighbouring sizes that share one time, the mean of their times.
struct Pool {
  double time_sum = 0;
  std::size_t count = 0;
  [[nodiscard]] double time_us() const { return time_sum / static_cast<double>(count); }
};

} // namespace

/// Every size is a knot; times that fall are replaced by their mean with the pool-adjacent-violators algorithm
/// (Barlow, Bartholomew, Bremner and Brunk, Statistical Inference under Order Restrictions, 1972, §1.2).
std::optional<planner::CostCurve::Shape> fit_interpolated(const FamilyInput& input) {
  std::vector<Pool> pools;
  for (const FitPoint& point : input.points) {
    pools.push_back({point.time_us, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].time_us() > pools.back().time_us()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back() = {pools.back().time_sum + last.time_sum, pools.back().count + last.count};
    }
  }
  planner::InterpolatedCurve curve;
  for (const Pool& pool : pools) {
    for (std::size_t i = 0; i < pool.count; ++i)
      curve.knots.push_back({input.points[curve.knots.size()].x, pool.time_us()});
  }
  return curve;
}

} // namespace mc2::profiler::fit
