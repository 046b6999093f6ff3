#include "made_up_lanes.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mc2::cli {

double Draw::uniform(double low, double high) {
  return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
}

double Draw::log_uniform(double low, double high) { return std::exp(uniform(std::log(low), std::log(high))); }

double Draw::normal() {
  return std::sqrt(-2 * std::log(uniform(1e-12, 1))) * std::cos(2 * std::numbers::pi * uniform(0, 1));
}

MadeUpLanes::MadeUpLanes(Draw& draw, Truth truth, std::int64_t rows, double balance)
    : truth_(truth), rows_(static_cast<double>(rows)) {
  compute_us_ = draw.log_uniform(200, 5000);
  communication_us_ = compute_us_ * std::exp(draw.uniform(-std::log(balance), std::log(balance)));
  compute_fixed_ = draw.log_uniform(0.003, 0.05);
  communication_fixed_ = draw.log_uniform(0.003, 0.08);
  bend_ = draw.uniform(0.1, 0.5);
  bend_rows_ = rows_ * draw.uniform(0.1, 0.5);
  step_rows_ = rows_ / draw.uniform(6, 20);
}

double MadeUpLanes::time_us(bool is_compute, std::int64_t rows) const {
  const auto x = static_cast<double>(rows);
  const double fixed = is_compute ? compute_fixed_ : communication_fixed_;
  double share = x / rows_;
  // Waves are filled step by step; the ragged part of a wave costs most of a whole one.
  if (is_compute && truth_ == Truth::Staircase)
    share = (0.3 * x + 0.7 * step_rows_ * std::ceil(x / step_rows_)) /
            (0.3 * rows_ + 0.7 * step_rows_ * std::ceil(rows_ / step_rows_));
  // Concave up to the bend, as published all-reduce curves are, and affine beyond it.
  if (!is_compute && truth_ == Truth::Bent) {
    const double u = std::min(x / bend_rows_, 1.0);
    share += bend_ * bend_rows_ / rows_ * u * (2 - u);
  }
  return (is_compute ? compute_us_ : communication_us_) * (fixed + (1 - fixed) * share);
}

} // namespace mc2::cli
