#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/cost_model.hpp"

namespace mc2::planner::interpolated_test {
namespace {

CostCurve curve_of(std::vector<CurveKnot> knots) {
  CostCurve curve;
  curve.shape = InterpolatedCurve{std::move(knots)};
  curve.valid_max_x = 1e6;
  return curve;
}

TEST(Interpolated, PassesThroughItsKnots) {
  const CostCurve curve = curve_of({{10, 5}, {20, 5}, {30, 40}, {50, 41}});
  EXPECT_DOUBLE_EQ(curve.time_us(10), 5);
  EXPECT_DOUBLE_EQ(curve.time_us(20), 5);
  EXPECT_DOUBLE_EQ(curve.time_us(30), 40);
  EXPECT_DOUBLE_EQ(curve.time_us(50), 41);
  EXPECT_DOUBLE_EQ(curve.time_us(15), 5); // level between knots of equal time
}

TEST(Interpolated, IsTheLineThroughKnotsOfALine) {
  const CostCurve curve = curve_of({{10, 30}, {20, 50}, {100, 210}}); // 10 + 2 x
  for (const double x : {1.0, 10.0, 13.0, 20.0, 77.0, 100.0, 1000.0}) EXPECT_NEAR(curve.time_us(x), 10 + 2 * x, 1e-9);
}

TEST(Interpolated, UsesTheWeightedHarmonicMeanOfTheSecants) {
  // Knots 0, 1, 3 with times 0, 1, 5: secants 1 and 2, widths 1 and 2, weight (1 + 4) / (3 * 3) = 5/9; the slope at 1
  // is 1 / (5/9 + 4/9 * 1/2) = 9/7. Hermite at 2 (s = 1/2, width 2, end slope 2):
  // (1 + 5) / 2 + 2 / 8 * (9/7 - 2) = 3 - 5/28.
  EXPECT_NEAR(curve_of({{0, 0}, {1, 1}, {3, 5}}).time_us(2), 3 - 5.0 / 28, 1e-12);
}

TEST(Interpolated, ExtrapolatesTheEndSecantsNeverBelowZero) {
  const CostCurve curve = curve_of({{10, 5}, {20, 15}, {40, 20}}); // secants 1 and 0.25
  EXPECT_DOUBLE_EQ(curve.time_us(8), 3);
  EXPECT_DOUBLE_EQ(curve.time_us(2), 0); // 5 - 8 would be negative
  EXPECT_DOUBLE_EQ(curve.time_us(60), 25);
}

TEST(Interpolated, InverseFindsTheFirstSizeOfALevelStretch) {
  const CostCurve curve = curve_of({{10, 5}, {20, 5}, {30, 40}});
  EXPECT_LT(curve.inverse(5, 100).value(), 1e-9); // the first secant is level, so every small block costs 5
  EXPECT_NEAR(curve.inverse(40, 100).value(), 30, 1e-9);
  EXPECT_NEAR(curve.inverse(75, 100).value(), 40, 1e-9); // 40 + 3.5 * 10
}

TEST(Interpolated, ScalingMultipliesEveryTime) {
  const CostCurve curve = curve_of({{10, 5}, {20, 6}, {30, 40}});
  for (const double x : {1.0, 14.0, 25.0, 60.0}) EXPECT_NEAR(scaled(curve, 3).time_us(x), 3 * curve.time_us(x), 1e-9);
}

TEST(Interpolated, FormulaNamesTheKnots) {
  EXPECT_EQ(curve_of({{10, 5}, {20, 6}, {30, 40}}).formula_text(),
            "monotone interpolation of 3 sizes, 10 rows 5 us to 30 rows 40 us");
}

TEST(Interpolated, RefusesWhatIsNoCurveNamingTheField) {
  const double nan = std::nan("");
  const auto field_of = [](std::vector<CurveKnot> knots) {
    const auto valid = curve_of(std::move(knots)).validate();
    return valid ? std::string("valid") : valid.error().field;
  };
  EXPECT_EQ(field_of({{1, 1}, {2, 1}}), "valid");
  EXPECT_EQ(field_of({}), "knots");
  EXPECT_EQ(field_of({{1, 1}}), "knots");
  EXPECT_EQ(field_of(std::vector<CurveKnot>(257, {1, 1})), "knots");
  EXPECT_EQ(field_of({{nan, 1}, {2, 1}}), "knots[0].x");
  EXPECT_EQ(field_of({{-1, 1}, {2, 1}}), "knots[0].x");
  EXPECT_EQ(field_of({{1, 1}, {std::numeric_limits<double>::infinity(), 1}}), "knots[1].x");
  EXPECT_EQ(field_of({{1, 1}, {2, nan}}), "knots[1].time_us");
  EXPECT_EQ(field_of({{1, 1}, {2, 1e16}}), "knots[1].time_us");
  EXPECT_EQ(field_of({{1, -1}, {2, 1}}), "knots[0].time_us");
  EXPECT_EQ(field_of({{2, 1}, {2, 2}}), "knots[1].x");         // twice the same size
  EXPECT_EQ(field_of({{3, 1}, {2, 2}}), "knots[1].x");         // unsorted
  EXPECT_EQ(field_of({{1, 5}, {2, 4.9}}), "knots[1].time_us"); // falls
  EXPECT_EQ(field_of({{0, 1}, {1e-320, 1e15}}), "knots[1].x"); // an infinite slope
}

TEST(Interpolated, StaysFiniteAtItsExtremes) {
  const CostCurve curve = curve_of({{0, 0}, {1e-9, 1e15}, {1e18, 1e15}});
  ASSERT_TRUE(curve.validate().ok());
  double previous = 0;
  for (double x = 1e-12; x < 1e20; x *= 3) {
    ASSERT_TRUE(std::isfinite(curve.time_us(x))) << x;
    ASSERT_GE(curve.time_us(x), previous) << x;
    previous = curve.time_us(x);
  }
}

} // namespace
} // namespace mc2::planner::interpolated_test
