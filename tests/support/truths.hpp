#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/profiler/fit.hpp"

/// Random cost curves that serve as the truth, and noisy samples of them. All numbers come from the given generator.
namespace mc2::testing {

using Random = std::mt19937_64;

inline double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

inline planner::CostCurve truth_of(planner::CostCurve::Shape shape, double max_x) {
  planner::CostCurve curve;
  curve.shape = std::move(shape);
  curve.valid_max_x = max_x;
  return curve;
}

/// An affine curve. The part that grows is 2 to 30 times the fixed part at max_x.
inline planner::CostCurve affine_truth(Random& random, double max_x) {
  const double alpha_us = uniform(random, 5, 100);
  return truth_of(planner::AffineCurve{alpha_us, alpha_us * uniform(random, 2, 30) / max_x}, max_x);
}

/// A curve that is concave up to a knot at 0.3 to 0.5 of max_x, then a line with a third to two thirds of the first
/// slope.
inline planner::CostCurve piecewise_truth(Random& random, double max_x) {
  const double knot_x = max_x * uniform(random, 0.3, 0.5), alpha_us = uniform(random, 5, 30);
  const double slope = alpha_us * uniform(random, 10, 30) / max_x;
  planner::PiecewiseCurve curve{knot_x, 1, -slope / (4 * knot_x), slope, alpha_us, slope * uniform(random, 0.33, 0.66),
                                0};
  curve.l0 = curve.q2 * knot_x * knot_x + slope * knot_x + alpha_us - curve.l1 * knot_x;
  return truth_of(curve, max_x);
}

/// A curve with three knots, at which the slope changes by a factor of 2.5 to 5, alternately up and down.
inline planner::CostCurve segments_truth(Random& random, double max_x) {
  planner::SegmentsCurve curve;
  double slope = uniform(random, 0.05, 0.2), begin_x = 0, begin_us = uniform(random, 5, 30);
  const bool is_up_first = uniform(random, 0, 1) < 0.5;
  for (int i = 0; i < 4; ++i) {
    curve.pieces.push_back({0, slope, begin_us - slope * begin_x});
    if (i == 3) break;
    const double knot_x = max_x * (0.25 * (i + 1) + uniform(random, -0.05, 0.05));
    curve.knots_x.push_back(knot_x);
    begin_us += slope * (knot_x - begin_x);
    begin_x = knot_x;
    const double factor = uniform(random, 2.5, 5);
    slope *= (i % 2 == 0) == is_up_first ? factor : 1 / factor;
  }
  return truth_of(curve, max_x);
}

/// A staircase of 4 to 16 waves. The affine base grows within a wave by at most half a step.
inline planner::CostCurve staircase_truth(Random& random, double max_x) {
  const double period_x = max_x / uniform(random, 4, 16), step_us = uniform(random, 20, 200);
  return truth_of(planner::StaircaseCurve{step_us * uniform(random, 0.1, 0.5),
                                          step_us / period_x * uniform(random, 0, 0.5), step_us, period_x, "truth"},
                  max_x);
}

/// Sizes at equal distances up to max_x.
inline std::vector<double> even_sizes(int count, double max_x) {
  std::vector<double> sizes;
  for (int i = 1; i <= count; ++i) sizes.push_back(max_x * i / count);
  return sizes;
}

/// Sizes in equal ratios from max_x / 32 to max_x.
inline std::vector<double> geometric_sizes(int count, double max_x) {
  std::vector<double> sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(max_x / 32 * std::pow(32.0, i / (count - 1.0)));
  return sizes;
}

/// Groups of three sizes that differ by 1 %.
inline std::vector<double> clustered_sizes(int count, double max_x) {
  std::vector<double> sizes;
  for (const double centre : even_sizes(count / 3, max_x * 0.99))
    for (const double factor : {0.99, 1.0, 1.01}) sizes.push_back(centre * factor);
  return sizes;
}

inline double noisy(Random& random, double time_us, double noise) {
  return time_us * std::exp(std::normal_distribution<double>(0, noise)(random));
}

/// One noisy time per size. Its spread is left unknown, so that a fit must find the noise in its own residuals.
inline std::vector<profiler::FitPoint> samples_of(Random& random, const planner::CostCurve& truth,
                                                  const std::vector<double>& sizes, double noise) {
  std::vector<profiler::FitPoint> points;
  for (const double x : sizes) points.push_back({x, noisy(random, truth.time_us(x), noise), 0, 1});
  return points;
}

} // namespace mc2::testing
