#include "fit/linear.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <vector>

namespace mc2::profiler::fit::linear_test {
namespace {

/// A design whose rows are {1, x} / time, so that residuals are relative.
RelativeDesign line_design(const std::vector<double>& x, const std::vector<double>& times) {
  RelativeDesign design(static_cast<Eigen::Index>(x.size()), 2);
  for (std::size_t i = 0; i < x.size(); ++i) design.row(static_cast<Eigen::Index>(i)) << 1 / times[i], x[i] / times[i];
  return design;
}

TEST(FitNonnegative, FindsTheCoefficientsOfALine) {
  const auto fitted =
      fit_nonnegative(line_design({1, 2, 3}, {12, 14, 16}), 0.05, kFinalReweightings); // the line 10 + 2 x
  ASSERT_TRUE(fitted);
  EXPECT_NEAR(fitted->coefficients(0), 10, 1e-9);
  EXPECT_NEAR(fitted->coefficients(1), 2, 1e-9);
  EXPECT_NEAR(fitted->cost, 0, 1e-15);
}

TEST(FitNonnegative, KeepsACoefficientAtZeroRatherThanNegative) {
  // The points lie on 2 x - 1, so the best non-negative intercept is 0. The slope b minimises sum (b x / t - 1)^2 over
  // x / t = 1, 2/3, 3/5: b = (1 + 2/3 + 3/5) / (1 + 4/9 + 9/25) = 2.2667 / 1.8044 = 1.25616.
  const auto fitted = fit_nonnegative(line_design({1, 2, 3}, {1, 3, 5}), 10, kFinalReweightings);
  ASSERT_TRUE(fitted);
  EXPECT_EQ(fitted->coefficients(0), 0);
  EXPECT_NEAR(fitted->coefficients(1), 1.25616, 1e-5);
}

TEST(FitNonnegative, BoundsThePullOfAWrongTime) {
  const std::vector<double> x{1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<double> times;
  for (const double each : x) times.push_back(10 + 2 * each);
  times[4] *= 3;
  const auto fitted = fit_nonnegative(line_design(x, times), 0.01, kFinalReweightings);
  ASSERT_TRUE(fitted);
  EXPECT_NEAR(fitted->coefficients(0) + 5 * fitted->coefficients(1), 20, 0.5);
}

TEST(FitNonnegative, RefusesWhatDeterminesNothing) {
  EXPECT_FALSE(fit_nonnegative(RelativeDesign::Zero(3, 2), 0.05, 0));
  EXPECT_FALSE(fit_nonnegative(RelativeDesign::Constant(3, 2, std::nan("")), 0.05, 0));
  EXPECT_FALSE(fit_nonnegative(RelativeDesign::Constant(3, 2, std::numeric_limits<double>::infinity()), 0.05, 0));
  const auto repeated =
      fit_nonnegative(RelativeDesign::Ones(3, 2), 0.05, 0); // columns are equal: any split of 1 is right
  ASSERT_TRUE(repeated);
  EXPECT_NEAR(repeated->coefficients.sum(), 1, 1e-9);
}

TEST(FitNonnegative, MeetsTheConditionsOfAMinimum) {
  // The Karush-Kuhn-Tucker conditions: the gradient is 0 for a positive coefficient, and not negative for one at 0.
  EXPECT_TRUE(rc::check([] {
    const int rows = *rc::gen::inRange(6, 20), columns = *rc::gen::inRange(1, kMaxLinearCoefficients + 1);
    RelativeDesign design(rows, columns);
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column) design(row, column) = *rc::gen::inRange(-100, 300) / 100.0;
    const auto fitted = fit_nonnegative(design, 1e6, 0);
    if (!fitted) return;
    const Eigen::VectorXd residual = design * fitted->coefficients - Eigen::VectorXd::Ones(rows);
    const Eigen::VectorXd gradient = design.transpose() * residual;
    const double tolerance = 1e-7 * design.squaredNorm();
    for (int column = 0; column < columns; ++column) {
      RC_ASSERT(fitted->coefficients(column) >= 0);
      RC_ASSERT(gradient(column) > -tolerance);
      if (fitted->coefficients(column) > 0) RC_ASSERT(gradient(column) < tolerance);
    }
  }));
}

} // namespace
} // namespace mc2::profiler::fit::linear_test
