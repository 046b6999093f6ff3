#include "mc2/profiler/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace mc2::profiler::statistics_test {
namespace {

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
  // Quantiles of type 7: position q (n - 1) = 0.25 * 3 = 0.75 lies between 10 and 20: 10 + 0.75 * 10.
  EXPECT_DOUBLE_EQ(quantile(std::vector{40.0, 10.0, 30.0, 20.0}, 0.25), 17.5);
}

TEST(Quantile, EndsAreTheExtremes) {
  const std::vector values{3.0, 1.0, 2.0};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 1), 3);
}

TEST(Quantile, OfOneValueIsThatValue) { EXPECT_EQ(quantile(std::vector{7.0}, 0.25), 7); }

TEST(Quantile, LiesWithinTheValuesAndGrowsWithQ) {
  EXPECT_TRUE(rc::check([](const std::vector<int>& integers) {
    RC_PRE(!integers.empty());
    const std::vector<double> values(integers.begin(), integers.end());
    double previous = *std::min_element(values.begin(), values.end());
    for (const double q : {0.0, 0.1, 0.5, 0.9, 1.0}) {
      const double value = quantile(values, q);
      RC_ASSERT(value >= previous - 1e-9 * std::abs(previous));
      previous = value;
    }
    RC_ASSERT(previous == *std::max_element(values.begin(), values.end()));
  }));
}

TEST(QuantileInterval, OfMedianOfTenUsesSecondAndNinthValue) {
  // For B of Binomial(10, 1/2), P(B <= 1) = 11/1024 = 0.011 and P(B <= 2) = 56/1024 = 0.055. 95 % leaves 0.025 in each
  // tail, so the interval ends at the 2nd and, by symmetry, at the 9th smallest value.
  std::vector<double> values(10);
  std::iota(values.begin(), values.end(), 1.0);
  const Interval interval = quantile_interval(values, 0.5, 0.95);
  EXPECT_DOUBLE_EQ(interval.value, 5.5);
  EXPECT_EQ(interval.low, 2);
  EXPECT_EQ(interval.high, 9);
}

TEST(QuantileInterval, LowSideEndsAtTheSmallestWhenThereAreTooFewValues) {
  // P(no value of 7 below the lower quartile) = 0.75^7 = 0.13 > 0.05, so no order statistic bounds it from below. The
  // upper bound is the 5th smallest: for B of Binomial(7, 1/4), P(B >= 4) = 0.071 > 0.05 and P(B >= 5) = 0.013.
  const Interval interval = quantile_interval(std::vector{1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0}, 0.25, 0.90);
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, 5);
}

TEST(QuantileInterval, OfTwoValuesIsTheirRange) {
  const Interval interval = quantile_interval(std::vector{4.0, 2.0}, 0.5, 0.90);
  EXPECT_EQ(interval.low, 2);
  EXPECT_EQ(interval.high, 4);
}

TEST(QuantileInterval, OfAnExtremeQuantileIsTheRange) {
  const Interval interval = quantile_interval(std::vector{4.0, 2.0, 3.0}, 0, 0.90);
  EXPECT_EQ(interval.value, 2);
  EXPECT_EQ(interval.high, 4);
}

TEST(QuantileInterval, NarrowsAroundTheQuantileOfManyValues) {
  // The 90 % interval has the ranks n q +- 1.645 sqrt(n q (1 - q)) = 25000 +- 225 of 100000.
  std::vector<double> values(100'000);
  std::iota(values.begin(), values.end(), 0.0);
  const Interval interval = quantile_interval(values, 0.25, 0.90);
  EXPECT_NEAR(interval.low, 25'000 - 225, 3);
  EXPECT_NEAR(interval.high, 25'000 + 225, 3);
}

TEST(QuantileInterval, HoldsItsValue) {
  EXPECT_TRUE(rc::check([](const std::vector<int>& integers) {
    RC_PRE(!integers.empty());
    const std::vector<double> values(integers.begin(), integers.end());
    const Interval interval = quantile_interval(values, 0.25, 0.90);
    RC_ASSERT(interval.low <= interval.value && interval.value <= interval.high);
  }));
}

TEST(Interval, RelativeHalfWidthIsHalfTheWidthOverTheValue) {
  EXPECT_DOUBLE_EQ((Interval{100, 96, 106}.relative_half_width()), 0.05);
  EXPECT_TRUE(std::isinf((Interval{0, -1, 1}.relative_half_width())));
}

TEST(FindOutliers, MarksBothSides) {
  // The median is 101. The absolute deviations 2 1 0 1 2 99 81 have the median 2, scaled 2.97; the limit is 6 * 2.97 =
  // 17.8.
  const std::vector values{99.0, 100.0, 101.0, 102.0, 103.0, 200.0, 20.0};
  EXPECT_THAT(find_outliers(values), ::testing::ElementsAre(false, false, false, false, false, true, true));
}

TEST(FindOutliers, KeepsValuesWithinTenPercentHoweverTightTheRest) {
  // The scaled deviation is about 0.1, so 109 is far beyond 6 deviations; but it is within 10 % of the median, 100.1.
  const std::vector values{100.0, 100.1, 100.2, 100.0, 100.1, 100.2, 109.0, 111.0};
  EXPECT_THAT(find_outliers(values), ::testing::ElementsAre(false, false, false, false, false, false, false, true));
}

TEST(FindOutliers, MarksOnlyBeyondAFactorOfTwoWhenThereIsNoDeviation) {
  const std::vector values{10.0, 10.0, 10.0, 10.0, 19.0, 21.0, 4.0};
  EXPECT_THAT(find_outliers(values), ::testing::ElementsAre(false, false, false, false, false, true, true));
}

TEST(FindOutliers, MarksOnlyBeyondAFactorOfTwoAmongFewValues) {
  EXPECT_THAT(find_outliers(std::vector{10.0, 11.0, 19.0}), ::testing::ElementsAre(false, false, false));
  EXPECT_THAT(find_outliers(std::vector{10.0, 11.0, 23.0}), ::testing::ElementsAre(false, false, true));
}

TEST(FindOutliers, AcceptsNoneAndOne) {
  EXPECT_TRUE(find_outliers({}).empty());
  EXPECT_THAT(find_outliers(std::vector{5.0}), ::testing::ElementsAre(false));
}

TEST(PairedRatio, IsTheMedianOfRatiosNotTheRatioOfMedians) {
  // The ratios 2, 2.5 and 0.5 have the median 2. The medians are 25 and 10, and their ratio is 2.5.
  const Interval ratio = paired_ratio(std::vector{2.0, 25.0, 50.0}, std::vector{1.0, 10.0, 100.0}, 0.90);
  EXPECT_DOUBLE_EQ(ratio.value, 2);
  EXPECT_DOUBLE_EQ(ratio.low, 0.5);
  EXPECT_DOUBLE_EQ(ratio.high, 2.5);
}

TEST(PairedRatio, CancelsDriftThatBothShareWithinAPair) {
  EXPECT_TRUE(rc::check([] {
    const auto drifts = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 1000)));
    std::vector<double> slow;
    std::vector<double> fast;
    for (const int drift : drifts) {
      fast.push_back(drift);
      slow.push_back(1.25 * drift);
    }
    RC_ASSERT(std::abs(paired_ratio(slow, fast, 0.90).value - 1.25) < 1e-12);
  }));
}

TEST(RelativeDeviation, IsSampleDeviationOverMean) {
  // The mean is 10 and the squared deviations are 4 + 0 + 4; divided by 2 they give a deviation of 2.
  EXPECT_DOUBLE_EQ(relative_deviation(std::vector{8.0, 10.0, 12.0}), 0.2);
  EXPECT_EQ(relative_deviation(std::vector{8.0}), 0);
  EXPECT_EQ(relative_deviation(std::vector{-1.0, 1.0}), 0);
}

TEST(StatisticsDeathTest, QuantileOfNothingIsABrokenInvariant) {
  EXPECT_DEATH(static_cast<void>(quantile({}, 0.5)), "");
}

} // namespace
} // namespace mc2::profiler::statistics_test
