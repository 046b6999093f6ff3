#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::planner::curve_families_test {
namespace {

CostCurve curve_of(CostCurve::Shape shape, double max_x = 1e6, CurveAxis axis = CurveAxis::Rows) {
  CostCurve curve;
  curve.axis = axis;
  curve.shape = std::move(shape);
  curve.valid_max_x = max_x;
  return curve;
}

int any_int(int low, int high) { return *rc::gen::inRange(low, high); }

CostCurve any_affine() { return curve_of(AffineCurve{any_int(0, 100) / 7.0, any_int(1, 100) / 700.0}); }

CostCurve any_piecewise() {
  // The curve rises up to the knot, as its slopes s0 at 0 and s1 at the knot are not negative. Beyond the knot it
  // starts 5 % lower, plus up to 20 us.
  const double knot = any_int(10, 1000), s0 = any_int(0, 50) / 10.0, s1 = any_int(0, 50) / 10.0;
  PiecewiseCurve curve{knot, 1, (s1 - s0) / (2 * knot), s0, 1.0 * any_int(1, 50), any_int(0, 50) / 10.0, 0};
  const double end_us = (s0 + s1) / 2 * knot + curve.q0;
  curve.l0 = end_us * 0.95 + any_int(0, 20) - curve.l1 * knot;
  return curve_of(curve);
}

CostCurve any_segments() {
  SegmentsCurve curve{any_int(1, 4) * 1.0, {}, {}};
  double begin_x = 0, end_us = any_int(0, 50);
  for (int left = any_int(0, 5); left >= 0; --left) {
    const double begin_u = begin_x / curve.scale_x, end_u = begin_u + any_int(1, 300) / curve.scale_x;
    const double s0 = any_int(0, 50) / 10.0, s1 = left == 0 ? s0 + any_int(0, 9) : any_int(0, 50) / 10.0;
    CurvePiece piece{(s1 - s0) / (2 * (end_u - begin_u)), 0, 0};
    piece.q1 = s0 - 2 * piece.q2 * begin_u;
    const double begin_us = end_us * any_int(93, 120) / 100.0;
    piece.q0 = begin_us - (piece.q2 * begin_u + piece.q1) * begin_u;
    end_us = (piece.q2 * end_u + piece.q1) * end_u + piece.q0;
    curve.pieces.push_back(piece);
    if (left > 0) curve.knots_x.push_back(end_u * curve.scale_x);
    begin_x = end_u * curve.scale_x;
  }
  return curve_of(curve);
}

CostCurve any_staircase() {
  return curve_of(StaircaseCurve{any_int(0, 100) / 7.0, any_int(0, 100) / 700.0, any_int(1, 100) / 7.0,
                                 any_int(7, 3000) / 7.0, "fitted"});
}

CostCurve any_interpolated() {
  InterpolatedCurve curve{{{1.0 * any_int(0, 50), 1.0 * any_int(0, 50)}}};
  for (int left = any_int(1, 12); left > 0; --left) {
    const auto [x, time_us] = curve.knots.back();
    curve.knots.push_back({x + any_int(1, 500) / 3.0, time_us + std::max(any_int(-50, 300), 0) / 7.0});
  }
  return curve_of(curve);
}

using Generator = CostCurve (*)();
const std::vector<Generator> kGenerators{any_affine, any_piecewise, any_segments, any_staircase, any_interpolated};

TEST(EveryFamily, InverseIsTheFirstSizeOfThatCost) {
  for (const Generator generate : kGenerators) {
    EXPECT_TRUE(rc::check([generate] {
      const CostCurve curve = generate();
      if (const auto valid = curve.validate(); !valid) RC_FAIL(valid.error().text() + " " + curve.formula_text());
      const double x = any_int(1, 20000) / 8.0;
      const double t_us = curve.time_us(x);
      RC_ASSERT(t_us >= 0);
      const auto inverse = curve.inverse(t_us, x);
      RC_ASSERT(inverse.ok());
      RC_ASSERT(inverse.value() <= x);
      RC_ASSERT(curve.time_us(inverse.value()) >= t_us);
      const auto cheaper = curve.inverse(t_us * 0.7, x);
      RC_ASSERT(cheaper.ok());
      // Both may be the same jump of the curve, and each is found to a relative 1e-12 only.
      RC_ASSERT(cheaper.value() <= inverse.value() * (1 + 1e-11));
    }));
  }
}

TEST(EveryFamily, NeverFallsBetweenItsKnots) {
  for (const Generator generate : kGenerators) {
    EXPECT_TRUE(rc::check([generate] {
      const CostCurve curve = generate();
      const double x = any_int(1, 20000) / 8.0;
      const double further = x * (1 + any_int(1, 100) / 100.0);
      const bool may_fall = curve.family() == "segments" || curve.family() == "piecewise";
      // Segments have at most 4 knots, and the time may fall by 7 % at each: 0.93^4 = 0.748.
      const double least_us = curve.time_us(x) * (may_fall ? 0.69 : 1);
      RC_ASSERT(curve.time_us(further) >= least_us * (1 - 1e-12));
    }));
  }
}

TEST(EveryFamily, HasANameAndAFormula) {
  std::vector<std::string> names;
  for (const CostCurve::Shape& shape :
       {CostCurve::Shape(AffineCurve{}), CostCurve::Shape(PiecewiseCurve{}), CostCurve::Shape(SegmentsCurve{}),
        CostCurve::Shape(StaircaseCurve{}), CostCurve::Shape(InterpolatedCurve{})}) {
    names.emplace_back(curve_of(shape).family());
    EXPECT_FALSE(curve_of(shape).formula_text().empty());
    EXPECT_GE(curve_of(shape).time_us(10), 0); // a curve without points is harmless before validate() refuses it
  }
  EXPECT_EQ(names, (std::vector<std::string>{"affine", "piecewise", "segments", "staircase", "interpolated"}));
}

TEST(EveryFamily, RefusesTimesBeyondTheRangeOfADouble) {
  EXPECT_EQ(curve_of(AffineCurve{0, 1e306}, 1e4).validate().error().field, "shape"); // the time at 1e4 is 1e310 us
  EXPECT_TRUE(curve_of(AffineCurve{0, 1e306}, 10).validate().ok());
}

TEST(EveryFamily, StaysLegalWhenItIsScaled) {
  for (const Generator generate : kGenerators) {
    EXPECT_TRUE(rc::check([generate] {
      const CostCurve curve = generate();
      RC_ASSERT(curve.validate().ok());
      RC_ASSERT(scaled(curve, any_int(1, 1'000'000) / 7919.0).validate().ok());
    }));
  }
}

TEST(Piecewise, RefusesADropAtItsKnot) {
  // 100 us up to 10 and 80 us beyond it is a drop of 20 %.
  EXPECT_EQ(curve_of(PiecewiseCurve{10, 1, 0, 0, 100, 0, 80}).validate().error().field, "l0");
  EXPECT_TRUE(curve_of(PiecewiseCurve{10, 1, 0, 0, 100, 0, 91}).validate().ok());
}

} // namespace
} // namespace mc2::planner::curve_families_test
