#pragma once

#include <cmath>
#include <limits>

namespace mc2::planner {

/// Whether q2 u^2 + q1 u falls at u by more than rounding explains. A slope of 0 is the difference of two numbers,
/// which scaling a curve may round differently.
[[nodiscard]] inline bool falls(double q2, double q1, double u) noexcept {
  constexpr double kRounding = 64 * std::numeric_limits<double>::epsilon();
  const double curved = 2 * q2 * u;
  return !(curved + q1 >= -kRounding * (std::abs(curved) + std::abs(q1)));
}

} // namespace mc2::planner
