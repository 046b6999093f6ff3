#include "fit/cross_validation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace mc2::profiler::fit::cross_validation_test {
namespace {

std::vector<std::size_t> fold_sizes(const std::vector<double>& sizes) {
  std::vector<FitPoint> points;
  for (const double x : sizes) points.push_back({x, 1, 0, 1});
  std::vector<std::size_t> counts;
  for (const Fold& fold : make_folds(points)) counts.push_back(fold.end - fold.begin);
  return counts;
}

using Counts = std::vector<std::size_t>;

TEST(MakeFolds, SeparatesEvenAndGeometricSizes) {
  EXPECT_EQ(fold_sizes({100, 200, 300, 400, 500}), Counts({1, 1, 1, 1, 1}));
  EXPECT_EQ(fold_sizes({1, 2, 4, 8, 16, 32, 64, 1024}), Counts({1, 1, 1, 1, 1, 1, 1, 1}));
}

TEST(MakeFolds, KeepsTwinsTogether) {
  // The mean gap is (4098 - 128) / 8 = 496, so neighbours 1 apart are twins; their ratios are close to 1, too.
  EXPECT_EQ(fold_sizes({128, 129, 130, 1024, 1025, 1026, 4096, 4097, 4098}), Counts({3, 3, 3}));
}

TEST(MakeFolds, TakesNoSizesAndOneSize) {
  EXPECT_TRUE(make_folds({}).empty());
  EXPECT_EQ(fold_sizes({7}), Counts({1}));
}

TEST(CrossValidate, LeavesTwinsOutTogether) {
  // Times are 10 + x, except in the group at 500, which is 50 % slower. A line through the other groups predicts this
  // group with a relative error of (1.5 - 1) / 1.5 = 1/3.
  std::vector<FitPoint> points;
  for (const double x : {100.0, 101.0, 500.0, 501.0, 900.0, 901.0, 1300.0, 1301.0})
    points.push_back({x, (10 + x) * (x == 500 || x == 501 ? 1.5 : 1), 0, 1});
  const Family& affine = families().front();
  const FamilyInput input{points, planner::CurveAxis::Rows};
  planner::CostCurve curve;
  curve.shape = affine.fit(input).value();
  const auto validation = cross_validate(affine, input, curve);
  ASSERT_TRUE(validation);
  ASSERT_EQ(validation->errors.size(), 4U); // one for each of the four groups
  EXPECT_NEAR(validation->errors[2], 1.0 / 3, 1e-6);
}

TEST(CrossValidate, NeedsThreeFolds) {
  const std::vector<FitPoint> points{{100, 1, 0, 1}, {100.1, 1, 0, 1}, {100.2, 1, 0, 1}, {900, 2, 0, 1}};
  const Family& affine = families().front();
  EXPECT_FALSE(cross_validate(affine, {points, planner::CurveAxis::Rows}, {}));
}

TEST(StudentT, MatchesTheTable) {
  // Abramowitz and Stegun, table 26.10: 2.821 for 9 degrees of freedom, 2.528 for 20, 2.326 for infinitely many.
  EXPECT_NEAR(student_t99(9), 2.821, 0.03);
  EXPECT_NEAR(student_t99(20), 2.528, 0.005);
  EXPECT_NEAR(student_t99(1'000'000), 2.326, 1e-4);
}

} // namespace
} // namespace mc2::profiler::fit::cross_validation_test
