#include "mc2/profiler/fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "mc2/planner/units.hpp"

namespace mc2::profiler::fit_test {
namespace {

using planner::AffineCurve;
using planner::CostCurve;
using planner::CurveAxis;
using planner::kBytesPerMib;
using planner::PiecewiseCurve;
using ::testing::HasSubstr;

/// The published communication cost of an Ascend all-reduce, us over MiB (docs/cost_model.md §2).
double published_us(double mib) {
  return mib < 8 ? -0.9698202 * mib * mib + 27.0622573 * mib + 14.769 : 13.58491263 * mib + 61.508333;
}

double affine_us(double mib) { return 20 + 12 * mib; }

using Truth = double (*)(double);

const std::vector<double> kTenSizesMib{1, 2, 3, 4, 6, 8.5, 12, 16, 24, 32};

std::vector<FitPoint> points_of(Truth truth, const std::vector<double>& sizes_mib) {
  std::vector<FitPoint> points;
  for (const double mib : sizes_mib) points.push_back({mib * kBytesPerMib, truth(mib), 0, 10});
  return points;
}

std::vector<FitPoint> row_points(const std::vector<double>& rows, const std::vector<double>& times_us) {
  std::vector<FitPoint> points;
  for (std::size_t i = 0; i < rows.size(); ++i) points.push_back({rows[i], times_us[i], 0, 10});
  return points;
}

CostCurve fit(const std::vector<FitPoint>& points, CurveAxis axis = CurveAxis::Bytes) {
  const auto curve = fit_curve(points, axis);
  EXPECT_TRUE(curve.ok()) << curve.error().text();
  return curve.value();
}

/// The largest relative error of the fitted curve against the truth at the given sizes.
double worst_error(const CostCurve& curve, Truth truth, const std::vector<double>& sizes_mib) {
  double worst = 0;
  for (const double mib : sizes_mib) {
    worst = std::max(worst, std::abs(curve.time_us(mib * kBytesPerMib) / truth(mib) - 1));
  }
  return worst;
}

TEST(FitCurve, RecoversAnAffineCurveExactly) {
  // 7 us + 0.25 us/row.
  const CostCurve curve = fit(row_points({128, 256, 512, 1024}, {39, 71, 135, 263}), CurveAxis::Rows);
  const auto& affine = std::get<AffineCurve>(curve.shape);
  EXPECT_NEAR(affine.alpha_us, 7, 1e-6);
  EXPECT_NEAR(affine.beta_us_per_x, 0.25, 1e-9);
  EXPECT_EQ(curve.axis, CurveAxis::Rows);
  EXPECT_EQ(curve.valid_min_x, 128);
  EXPECT_EQ(curve.valid_max_x, 1024);
  EXPECT_FALSE(curve.is_analytic);
  EXPECT_EQ(curve.quality.point_count, 4);
  EXPECT_LT(curve.quality.relative_rms, 1e-9);
  EXPECT_LT(curve.relative_interval, 1e-9);
  EXPECT_THAT(curve.quality.reason, HasSubstr("too few for piecewise (6)"));
}

TEST(FitCurve, RecoversThePublishedCurve) {
  const CostCurve curve = fit(points_of(published_us, kTenSizesMib));
  const auto& piecewise = std::get<PiecewiseCurve>(curve.shape);
  EXPECT_EQ(piecewise.scale_x, kBytesPerMib);
  // The samples at 6 and 8.5 MiB surround the knot. Any place between them fits the samples equally well.
  EXPECT_GE(piecewise.knot_x, 6 * kBytesPerMib);
  EXPECT_LE(piecewise.knot_x, 8.5 * kBytesPerMib);
  EXPECT_NEAR(piecewise.q2, -0.9698202, 1e-5);
  EXPECT_NEAR(piecewise.q1, 27.0622573, 1e-4);
  EXPECT_NEAR(piecewise.q0, 14.769, 1e-4);
  EXPECT_NEAR(piecewise.l1, 13.58491263, 1e-5);
  EXPECT_NEAR(piecewise.l0, 61.508333, 1e-4);
  EXPECT_LT(worst_error(curve, published_us, {1, 1.5, 2.5, 5, 7, 7.9, 8, 9, 20, 32}), 0.005);
  EXPECT_THAT(curve.quality.reason, HasSubstr("for affine, "));
  EXPECT_TRUE(curve.validate().ok());
}

TEST(FitCurve, UsesRowsUnscaledInThePiecewiseFamily) {
  std::vector<FitPoint> points = points_of(published_us, kTenSizesMib);
  for (FitPoint& point : points) point.x = point.x / kBytesPerMib * 100; // 1 MiB becomes 100 rows
  const auto piecewise = std::get<PiecewiseCurve>(fit(points, CurveAxis::Rows).shape);
  EXPECT_EQ(piecewise.scale_x, 1);
  EXPECT_NEAR(piecewise.l1, 0.1358491263, 1e-7);
  EXPECT_NEAR(piecewise.q2, -0.9698202e-4, 1e-9);
}

TEST(FitCurve, KeepsTheSimplerFamilyWhenBothFit) {
  const CostCurve curve = fit(points_of(affine_us, kTenSizesMib));
  EXPECT_EQ(curve.family(), "affine");
  EXPECT_THAT(curve.quality.reason, HasSubstr("for piecewise"));
}

TEST(FitCurve, KeepsTheSimplerFamilyWhenItsErrorIsTheNoiseOfThePoints) {
  // The published curve differs from the best line by about 10 %. Points with an uncertainty of 1.36 * 0.6 / sqrt(10) =
  // 26 % are no evidence against the line; points with 0.26 % are.
  std::vector<FitPoint> points = points_of(published_us, kTenSizesMib);
  for (FitPoint& point : points) point.relative_spread = 0.6;
  EXPECT_EQ(fit(points).family(), "affine");
  for (FitPoint& point : points) point.relative_spread = 0.006;
  EXPECT_EQ(fit(points).family(), "piecewise");
}

TEST(FitCurve, KeepsTheSimplerFamilyUnderNoise) {
  // A richer family is chosen only if its error is a fifth smaller, which seldom happens on an affine truth.
  int piecewise_count = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(0, 0.02);
    std::vector<FitPoint> points = points_of(affine_us, kTenSizesMib);
    for (FitPoint& point : points) point.time_us *= std::exp(noise(random));
    if (fit(points).family() == "piecewise") ++piecewise_count;
  }
  EXPECT_LE(piecewise_count, 5);
}

struct WrongPoint {
  std::string name;
  Truth truth;
  double factor;
};
void PrintTo(const WrongPoint& param, std::ostream* out) { *out << param.name; }
class OneWrongPointTest : public ::testing::TestWithParam<WrongPoint> {};

TEST_P(OneWrongPointTest, DoesNotShiftTheOthers) {
  const auto [name, truth, factor] = GetParam();
  for (std::size_t wrong = 0; wrong < kTenSizesMib.size(); ++wrong) {
    std::vector<FitPoint> points = points_of(truth, kTenSizesMib);
    points[wrong].time_us *= factor;
    std::vector<double> others = kTenSizesMib;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(wrong));
    EXPECT_LT(worst_error(fit(points), truth, others), 0.03) << "wrong point " << wrong;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OneWrongPointTest,
                         ::testing::Values(WrongPoint{"AffineTooSlow", &affine_us, 3.0},
                                           WrongPoint{"AffineTooFast", &affine_us, 1.0 / 3},
                                           WrongPoint{"PublishedTooSlow", &published_us, 3.0},
                                           WrongPoint{"PublishedTooFast", &published_us, 1.0 / 3}));

TEST(FitCurve, NamesThePointItLeftOut) {
  std::vector<FitPoint> points = points_of(affine_us, kTenSizesMib);
  points[4].time_us *= 3;
  const CostCurve curve = fit(points);
  EXPECT_THAT(curve.quality.reason, HasSubstr("left out size 6.291e+06 as an outlier"));
  EXPECT_EQ(curve.quality.point_count, 9);
}

TEST(FitCurve, BoundsWhatASmallerErrorCanShift) {
  // A point that is 1.3 times too slow is no outlier, but Huber's loss bounds its influence.
  std::vector<FitPoint> points = points_of(affine_us, kTenSizesMib);
  points[5].time_us *= 1.3;
  EXPECT_LT(worst_error(fit(points), affine_us, {1, 2, 3, 4, 6, 12, 16, 24, 32}), 0.03);
}

TEST(FitCurve, ClampsANegativeStartToZero) {
  // The points are 2 us/row - 50 us. No block costs less than nothing, so the best legal line does not start below 0.
  const CostCurve curve = fit(row_points({100, 110, 120, 130}, {150, 170, 190, 210}), CurveAxis::Rows);
  EXPECT_GE(std::get<AffineCurve>(curve.shape).alpha_us, 0);
  EXPECT_GT(std::get<AffineCurve>(curve.shape).beta_us_per_x, 0);
}

TEST(FitCurve, AcceptsConstantTimes) {
  const auto affine = std::get<AffineCurve>(fit(row_points({1, 2, 3, 4}, {5, 5, 5, 5}), CurveAxis::Rows).shape);
  EXPECT_NEAR(affine.alpha_us, 5, 1e-9);
  EXPECT_NEAR(affine.beta_us_per_x, 0, 1e-9);
}

TEST(FitCurve, MergesPointsOfEqualSize) {
  // 100 rows were timed at 30, 32 and 90 us; the fit uses their median.
  const CostCurve curve = fit(row_points({100, 100, 100, 200, 300}, {32, 30, 90, 52, 72}), CurveAxis::Rows);
  EXPECT_EQ(curve.quality.point_count, 3);
  EXPECT_NEAR(curve.time_us(100), 32, 0.1); // the line is 12 + 0.2 x
}

TEST(FitCurve, DoesNotDependOnTheOrderOfPoints) {
  std::vector<FitPoint> points = points_of(published_us, kTenSizesMib);
  const CostCurve ascending = fit(points);
  std::reverse(points.begin(), points.end());
  EXPECT_EQ(fit(points), ascending);
}

TEST(FitCurve, IntervalIsThatOfRegressionPlusSpread) {
  // 10 points lie irregularly 2 % above and below a line, so nearly all residuals are 2 % and s^2 (1 + p/n) = 0.02^2 *
  // 10/8 * 1.2. The spread of single samples is 3 %, and t_0.95(8) = 1.860.
  std::vector<FitPoint> points;
  const std::string signs = "+--+-++--+";
  for (int i = 1; i <= 10; ++i) {
    const double factor = signs[static_cast<std::size_t>(i - 1)] == '+' ? 1.02 : 0.98;
    points.push_back({100.0 * i, (50 + 10.0 * i) * factor, 0.03, 10});
  }
  const double expected = 1.860 * std::sqrt(0.02 * 0.02 * 1.25 * 1.2 + 0.03 * 0.03);
  EXPECT_NEAR(fit(points, CurveAxis::Rows).relative_interval, expected, 0.1 * expected);
}

TEST(FitCurve, IntervalCoversNineTimingsInTen) {
  // Each size is fitted from one time with 2 % noise. Another timing of the size must lie in the interval with a
  // probability of 90 %.
  int inside = 0;
  int total = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(0, 0.02);
    std::vector<FitPoint> points = points_of(affine_us, kTenSizesMib);
    for (FitPoint& point : points) point.time_us *= 1 + noise(random);
    const CostCurve curve = fit(points);
    for (const double mib : kTenSizesMib) {
      const double again = affine_us(mib) * (1 + noise(random));
      if (std::abs(again / curve.time_us(mib * kBytesPerMib) - 1) <= curve.relative_interval) ++inside;
      ++total;
    }
  }
  EXPECT_GT(inside, 0.85 * total);
  EXPECT_LT(inside, 0.98 * total);
}

TEST(FitCurve, IsPositiveAndNeverFalls) {
  EXPECT_TRUE(rc::check([] {
    const auto count = *rc::gen::inRange<std::size_t>(3, 14);
    const auto steps = *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(1, 1000));
    const auto growths = *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(-20, 200));
    std::vector<FitPoint> points;
    double x = 0;
    double time_us = 5;
    for (std::size_t i = 0; i < count; ++i) {
      x += steps[i];
      time_us *= 1 + growths[i] / 100.0;
      points.push_back({x, time_us, 0, 1});
    }
    const auto curve = fit_curve(points, CurveAxis::Rows);
    if (!curve) {
      RC_ASSERT(curve.error().code == ErrorCode::CannotFit);
      return;
    }
    RC_ASSERT(curve.value().validate().ok());
    double previous = 0;
    for (int i = 0; i <= 200; ++i) {
      const double at = curve.value().valid_min_x + i / 200.0 * (curve.value().valid_max_x - curve.value().valid_min_x);
      const double fitted = curve.value().time_us(at);
      RC_ASSERT(fitted > 0);
      RC_ASSERT(fitted >= previous * (1 - 1e-9));
      previous = fitted;
    }
  }));
}

TEST(FitCurve, IsTheSameInAnyUnitOfTime) {
  EXPECT_TRUE(rc::check([] {
    const double unit = std::pow(10.0, *rc::gen::inRange(-3, 9));
    std::vector<FitPoint> points = points_of(published_us, kTenSizesMib);
    for (FitPoint& point : points) point.time_us *= unit;
    const auto curve = fit_curve(points, CurveAxis::Bytes);
    RC_ASSERT(curve.ok());
    for (const double mib : kTenSizesMib) {
      RC_ASSERT(std::abs(curve.value().time_us(mib * kBytesPerMib) / (published_us(mib) * unit) - 1) < 1e-6);
    }
  }));
}

TEST(FitCurve, SurvivesSizesFromOneToTenToTheFifteen) {
  // The truth is 10 us + 1e-9 us per byte.
  std::vector<FitPoint> points;
  for (double x = 1; x <= 1e15; x *= 10) points.push_back({x, 10 + 1e-9 * x, 0, 1});
  const CostCurve curve = fit(points);
  for (const FitPoint& point : points) EXPECT_NEAR(curve.time_us(point.x) / point.time_us, 1, 1e-3);
}

TEST(FitCurve, SurvivesAMillionPoints) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> size(1, 1e9);
  std::vector<FitPoint> points(1'000'000);
  for (FitPoint& point : points) {
    point.x = size(random);
    point.time_us = 100 + 1e-6 * point.x;
  }
  const CostCurve curve = fit(points);
  EXPECT_NEAR(curve.time_us(5e8), 600, 1);
  EXPECT_LE(curve.quality.point_count, 128);
}

void expect_refusal(const std::vector<FitPoint>& points, const std::string& text) {
  const auto curve = fit_curve(points, CurveAxis::Rows);
  ASSERT_FALSE(curve.ok());
  EXPECT_EQ(curve.error().code, ErrorCode::CannotFit);
  EXPECT_THAT(curve.error().text(), HasSubstr(text));
}

TEST(FitCurveRefuses, NoPoints) { expect_refusal({}, "no samples"); }

TEST(FitCurveRefuses, TooFewDistinctSizes) {
  expect_refusal(row_points({1, 2, 2}, {1, 2, 2}), "too few distinct sizes: 2, at least 3");
}

TEST(FitCurveRefuses, OneSizeOnly) {
  expect_refusal(row_points({256, 256, 256, 256}, {1, 2, 3, 4}), "every sample has size 256");
}

TEST(FitCurveRefuses, IllegalTimes) {
  const double infinity = std::numeric_limits<double>::infinity();
  expect_refusal(row_points({1, 2, 3}, {1, std::nan(""), 3}), "points[1].time_us: time is not a finite number");
  expect_refusal(row_points({1, 2, 3}, {1, infinity, 3}), "not a finite number");
  expect_refusal(row_points({1, 2, 3}, {0, 2, 3}), "points[0].time_us: time is 0; must be above 0");
  expect_refusal(row_points({1, 2, 3}, {1, 2, -3}), "time is -3");
  expect_refusal(row_points({1, 2, 3}, {1, 2, 1e16}), "must be at most 1e+15");
}

TEST(FitCurveRefuses, IllegalSizes) {
  expect_refusal(row_points({0, 2, 3}, {1, 2, 3}), "points[0].x: size is 0");
  expect_refusal(row_points({-1, 2, 3}, {1, 2, 3}), "size is -1");
  expect_refusal(row_points({1, std::nan(""), 3}, {1, 2, 3}), "points[1].x: size is not a finite number");
  expect_refusal(row_points({1, 2, 1e19}, {1, 2, 3}), "must be at most 1e+18");
}

TEST(FitCurveRefuses, AnIllegalSpread) {
  std::vector<FitPoint> points = row_points({1, 2, 3}, {1, 2, 3});
  points[2].relative_spread = -1;
  expect_refusal(points, "points[2].relative_spread");
}

TEST(FitCurveRefuses, TimesThatFallWithSize) {
  expect_refusal(row_points({100, 200, 300, 400}, {40, 30, 20, 10}),
                 "time falls with size beyond the noise: 40 us at "
                 "size 100 but 10 us at size 400; 6 of 6 pairs");
}

TEST(FitCurveRefuses, TimesThatContradictEachOther) {
  expect_refusal(row_points({1, 2, 3, 4, 5, 6}, {50, 10, 50, 10, 50, 10}), "contradict each other");
}

TEST(FitCurve, ToleratesAFallWithinTheNoise) {
  // The times fall by 9 % from end to end, less than the tolerance of 10 %.
  EXPECT_TRUE(fit_curve(row_points({1, 2, 3, 4}, {100, 97, 94, 91}), CurveAxis::Rows).ok());
  // A fall of 20 % is within two standard errors when samples of one size vary by 30 %: 2 * 0.3 * sqrt(2) = 85 %.
  std::vector<FitPoint> points = row_points({1, 2, 3, 4}, {100, 93, 87, 80});
  for (FitPoint& point : points) point = {point.x, point.time_us, 0.3, 1};
  EXPECT_TRUE(fit_curve(points, CurveAxis::Rows).ok());
}

struct BadOption {
  std::string name;
  FitOptions options;
  std::string field;
};
void PrintTo(const BadOption& param, std::ostream* out) { *out << param.name; }
class FitOptionsTest : public ::testing::TestWithParam<BadOption> {};

TEST_P(FitOptionsTest, IsRefusedByName) {
  const auto curve = fit_curve(row_points({1, 2, 3}, {1, 2, 3}), CurveAxis::Rows, GetParam().options);
  ASSERT_FALSE(curve.ok());
  EXPECT_EQ(curve.error().code, ErrorCode::InvalidSpec);
  EXPECT_EQ(curve.error().field, GetParam().field);
}

INSTANTIATE_TEST_SUITE_P(All, FitOptionsTest,
                         ::testing::Values(BadOption{"NegativeQuantile", {.quantile = -0.1}, "quantile"},
                                           BadOption{"NanQuantile", {.quantile = std::nan("")}, "quantile"},
                                           BadOption{"NoScale", {.robust_scale = 0}, "robust_scale"}));

} // namespace
} // namespace mc2::profiler::fit_test
