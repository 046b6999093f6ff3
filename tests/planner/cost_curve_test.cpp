#include "mc2/planner/cost_curve.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/models.hpp"

namespace mc2::planner::cost_curve_test {
namespace {

TEST(CostCurve, AffineAddsFixedCostToSlope) {
  const CostCurve curve = testing::affine(CurveAxis::Rows, 10, 0.5);
  EXPECT_DOUBLE_EQ(curve.time_us(100), 60.0); // 10 + 0.5 * 100
}

TEST(CostCurve, NothingCostsNothing) { EXPECT_DOUBLE_EQ(testing::affine(CurveAxis::Rows, 10, 0.5).time_us(0), 0.0); }

TEST(CostCurve, PublishedFitGivesThePublishedTimes) {
  const CostCurve curve = testing::published_all_reduce();
  // 6 MiB: -0.9698202 * 36 + 27.0622573 * 6 + 14.769 = 142.229 (the example prints 143)
  EXPECT_NEAR(curve.time_us(6 * 1048576.0), 142.229, 0.001);
  // 64 MiB: 13.58491263 * 64 + 61.508333 = 930.943
  EXPECT_NEAR(curve.time_us(64 * 1048576.0), 930.943, 0.001);
}

TEST(CostCurve, InverseFindsTheBlockOfThatCost) {
  const CostCurve curve = testing::affine(CurveAxis::Rows, 10, 0.5);
  ASSERT_TRUE(curve.inverse(60, 1000));
  EXPECT_NEAR(curve.inverse(60, 1000).value(), 100, 1e-5);
}

TEST(CostCurve, InverseCrossesTheKnot) {
  const CostCurve curve = testing::published_all_reduce();
  const double x = curve.inverse(500, 1e9).value();
  EXPECT_NEAR(curve.time_us(x), 500, 1e-3);
}

TEST(CostCurve, InverseRefusesATimeThatNoBlockReaches) {
  const auto x = testing::affine(CurveAxis::Rows, 10, 0.5).inverse(1e6, 1000);
  ASSERT_FALSE(x);
  EXPECT_EQ(x.error().code, ErrorCode::OutOfRange);
}

TEST(CostCurve, ProvenanceFollowsTheMeasuredRange) {
  CostCurve curve = testing::affine(CurveAxis::Rows, 10, 0.5);
  curve.valid_min_x = 256;
  curve.valid_max_x = 1024;
  EXPECT_EQ(curve.provenance(512), Provenance::Interpolated);
  EXPECT_EQ(curve.provenance(2048), Provenance::Extrapolated);
  curve.is_analytic = true;
  EXPECT_EQ(curve.provenance(512), Provenance::Analytic);
}

TEST(CostCurve, ValidateNamesTheField) {
  CostCurve curve = testing::affine(CurveAxis::Rows, -1, 0.5);
  ASSERT_FALSE(curve.validate());
  EXPECT_EQ(curve.validate().error().field, "alpha_us");
  curve.shape = AffineCurve{1, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_EQ(curve.validate().error().field, "beta_us_per_x");
}

TEST(CostCurve, ValidateRefusesACurveThatFalls) {
  CostCurve curve = testing::published_all_reduce();
  // With q2 = -2.7 the slope 27.06 - 2 * 2.7 x is negative from x = 5.01 MiB on, which lies below the knot at 8 MiB.
  std::get<PiecewiseCurve>(curve.shape).q2 = -2.7;
  EXPECT_EQ(curve.validate().error().field, "q2");
}

TEST(CostCurve, PublishedFitIsValid) { EXPECT_TRUE(testing::published_all_reduce().validate()); }

TEST(CostCurve, OwnIntervalLeavesTheSpreadOfSingleTimingsOut) {
  CostCurve curve = testing::affine(CurveAxis::Rows, 1, 1);
  curve.relative_interval = 0.2;
  EXPECT_EQ(curve.curve_interval(), 0.2); // without a fit, relative_interval is all that is known
  curve.quality = {12, 0.01, 0.03, 0.02, "fit"};
  EXPECT_DOUBLE_EQ(curve.curve_interval(), 1.645 * 0.02);
  curve.quality.relative_rms = 0.5;
  EXPECT_EQ(curve.curve_interval(), 0.2);
}

TEST(CostCurve, RangesOfNoSizeThatABlockCanHaveAreRefused) {
  CostCurve curve;
  curve.shape = AffineCurve{1, 1};
  curve.valid_max_x = 1024;
  curve.valid_min_x = 5e-324;
  EXPECT_EQ(curve.validate().error().field, "valid_min_x");
  curve.valid_min_x = 0;
  EXPECT_TRUE(curve.validate());
  curve.valid_max_x = 5e-324;
  EXPECT_EQ(curve.validate().error().field, "valid_max_x");
}

} // namespace
} // namespace mc2::planner::cost_curve_test
