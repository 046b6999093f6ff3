#pragma once

#include <string>

#include "mc2/planner/cost_curve.hpp"

namespace mc2::planner {

/// Largest size and time of a knot. Larger ones are not real, and their products leave the range of a double.
inline constexpr double kMaxKnotX = 1e18;
inline constexpr double kMaxKnotTimeUs = 1e15;

/// Writes sizes in a formula: bytes that are scaled to MiB in MiB, all other sizes in the unit that they count.
class XText {
 public:
  XText(CurveAxis axis, double scale_x) noexcept;
  /// " rows", " columns", " B" or " MiB".
  [[nodiscard]] std::string unit() const;
  /// What x counts in a formula over x / scale_x: " MiB", " rows" or " times 512 rows".
  [[nodiscard]] std::string scaled_unit() const;
  /// "6 MiB".
  [[nodiscard]] std::string of(double x) const;

 private:
  CurveAxis axis_;
  double scale_x_;
  bool is_mib_;
};

/// The message about a curve that costs less just beyond a knot than at it.
[[nodiscard]] std::string fall_text(double before_us, double after_us);

} // namespace mc2::planner
