#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "mc2/planner/cost_curve.hpp"
#include "mc2/planner/cost_model.hpp"

namespace mc2::planner::staircase_test {
namespace {

/// 10 us + 0.01 us/row + 50 us per wave of 264 rows.
CostCurve staircase() {
  CostCurve curve;
  curve.shape = StaircaseCurve{10, 0.01, 50, 264, "fitted"};
  curve.valid_max_x = 8192;
  return curve;
}

TEST(Staircase, CountsWavesBegun) {
  EXPECT_DOUBLE_EQ(staircase().time_us(1), 10 + 0.01 + 50);
  EXPECT_DOUBLE_EQ(staircase().time_us(264), 10 + 2.64 + 50); // exactly one full wave
  EXPECT_DOUBLE_EQ(staircase().time_us(265), 10 + 2.65 + 100);
  EXPECT_DOUBLE_EQ(staircase().time_us(1320), 10 + 13.2 + 250); // 5 * 264
  EXPECT_EQ(staircase().time_us(0), 0);
}

TEST(Staircase, EqualsTheCountOfTilesAndWavesAtMultiplesOfATile) {
  // A row of tiles has 128 rows and 56 tiles, and 132 tiles make a wave: x rows take ceil(ceil(x / 128) * 56 / 132)
  // waves. The period, 128 * 132 / 56 rows, is not a whole number.
  CostCurve curve;
  curve.shape = StaircaseCurve{0, 0, 1, 128 * 132 / 56.0, ""};
  for (int tiles = 1; tiles <= 10000; ++tiles)
    ASSERT_EQ(curve.time_us(128.0 * tiles), std::ceil(tiles * 56 / 132.0)) << tiles;
}

TEST(Staircase, InverseIsRightAtTheSteps) {
  const CostCurve curve = staircase();
  // 112.65 us = 10 + 2.65 + 100 is what 265 rows cost.
  EXPECT_NEAR(curve.inverse(112.65, 8192).value(), 265, 1e-6);
  // 80 us lies in the jump from 62.64 to 112.64, so the answer is the first size beyond 264 rows.
  const double x = curve.inverse(80, 8192).value();
  EXPECT_GE(curve.time_us(x), 80);
  EXPECT_GT(x, 264);
  EXPECT_NEAR(x, 264, 1e-6);
  EXPECT_NEAR(curve.inverse(62.64, 8192).value(), 264, 1e-6); // the last size before the jump
  EXPECT_FALSE(curve.inverse(1e6, 8192).ok());
}

TEST(Staircase, FormulaSaysHowThePeriodWasFound) {
  EXPECT_EQ(staircase().formula_text(), "10 us + 0.01 us/row + 50 us for each 264 rows begun (period: fitted)");
}

TEST(Staircase, ScalingKeepsThePeriod) {
  const CostCurve twice = scaled(staircase(), 2);
  EXPECT_EQ(std::get<StaircaseCurve>(twice.shape).period_x, 264);
  for (const double x : {1.0, 264.0, 265.0, 8192.0}) EXPECT_DOUBLE_EQ(twice.time_us(x), 2 * staircase().time_us(x));
}

TEST(Staircase, RefusesWhatIsNoStaircase) {
  const auto field_of = [](StaircaseCurve shape) {
    CostCurve curve = staircase();
    curve.shape = std::move(shape);
    const auto valid = curve.validate();
    return valid ? std::string("valid") : valid.error().field;
  };
  const double nan = std::nan("");
  EXPECT_EQ(field_of({10, 0.01, 50, 264, ""}), "valid");
  EXPECT_EQ(field_of({nan, 0.01, 50, 264, ""}), "alpha_us");
  EXPECT_EQ(field_of({10, -1, 50, 264, ""}), "beta_us_per_x");
  EXPECT_EQ(field_of({10, 0.01, -50, 264, ""}), "step_us");
  EXPECT_EQ(field_of({10, 0.01, nan, 264, ""}), "step_us");
  for (const double period : {0.0, -264.0, 0.5, nan, std::numeric_limits<double>::infinity(), 1e17})
    EXPECT_EQ(field_of({10, 0.01, 50, period, ""}), "period_x") << period;
  EXPECT_EQ(field_of({10, 0.01, 1e307, 1, ""}), "shape"); // the time of 8192 such steps is infinite
}

} // namespace
} // namespace mc2::planner::staircase_test
