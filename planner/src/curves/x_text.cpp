#include "curves/x_text.hpp"

#include "mc2/planner/text.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::planner {

XText::XText(CurveAxis axis, double scale_x) noexcept
    : axis_(axis), scale_x_(scale_x), is_mib_(axis == CurveAxis::Bytes && scale_x == kBytesPerMib) {}

std::string XText::unit() const {
  if (axis_ != CurveAxis::Bytes) return " " + std::string(to_string(axis_));
  return is_mib_ ? " MiB" : " B";
}

std::string XText::scaled_unit() const {
  return is_mib_ || scale_x_ == 1 ? unit() : " times " + number_text(scale_x_) + unit();
}

std::string XText::of(double x) const { return number_text(is_mib_ ? x / kBytesPerMib : x) + unit(); }

std::string fall_text(double before_us, double after_us) {
  return "makes the cost fall from " + number_text(before_us) + " to " + number_text(after_us) +
         " us at a knot; at most " + percent_text(kMaxKnotFall) + " are allowed";
}

} // namespace mc2::planner
