#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "mc2/profiler/fit.hpp"
#include "support/truths.hpp"

/// Tests which family fit_curve() chooses for random curves with known noise, and whether its interval holds what it
/// promises.
namespace mc2::profiler::curve_choice_test {
namespace {

using planner::CostCurve;
using planner::CurveAxis;
using planner::SegmentsCurve;
using planner::StaircaseCurve;
using ::testing::HasSubstr;
using testing::Random;
using testing::samples_of;

constexpr double kMaxRows = 4096;

CostCurve fit(const std::vector<FitPoint>& points, const FitOptions& options = {}) {
  const auto curve = fit_curve(points, CurveAxis::Rows, options);
  EXPECT_TRUE(curve.ok()) << curve.error().text();
  return curve.value();
}

using MakeTruth = CostCurve (*)(Random&, double);

/// For how many of `count` random truths, sampled with noise, fit_curve() chooses the family.
int count_chosen(MakeTruth make_truth, const std::string& family, int count, int size_count, double noise) {
  int chosen = 0;
  for (int seed = 0; seed < count; ++seed) {
    Random random(static_cast<unsigned>(seed));
    const CostCurve truth = make_truth(random, kMaxRows);
    const CostCurve curve = fit(samples_of(random, truth, testing::geometric_sizes(size_count, kMaxRows), noise));
    if (curve.family() == family) ++chosen;
  }
  return chosen;
}

TEST(CurveChoice, AnAffineTruthStaysAffine) {
  EXPECT_GE(count_chosen(testing::affine_truth, "affine", 40, 10, 0.02) +
                count_chosen(testing::affine_truth, "affine", 40, 15, 0.05),
            76); // 95 % of 80
}

TEST(CurveChoice, APiecewiseTruthIsFound) {
  EXPECT_GE(count_chosen(testing::piecewise_truth, "piecewise", 20, 18, 0.01), 18);
}

TEST(CurveChoice, AStaircaseIsFoundWithItsPeriod) {
  int found = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const CostCurve truth = testing::staircase_truth(random, kMaxRows);
    const CostCurve curve = fit(samples_of(random, truth, testing::even_sizes(32, kMaxRows), 0.01));
    const auto* staircase = std::get_if<StaircaseCurve>(&curve.shape);
    if (staircase == nullptr) continue;
    EXPECT_EQ(staircase->period_source, "fitted");
    if (std::abs(staircase->period_x / std::get<StaircaseCurve>(truth.shape).period_x - 1) < 0.02) ++found;
  }
  EXPECT_GE(found, 19);
}

TEST(CurveChoice, AStaircaseWithoutNoiseIsRecovered) {
  // 10 us + 0.01 us/row + 50 us for every 264 rows that are begun. Samples are at all multiples of 128 rows up to 4096.
  const CostCurve truth = testing::truth_of(StaircaseCurve{10, 0.01, 50, 264, ""}, kMaxRows);
  Random random(1);
  const CostCurve curve = fit(samples_of(random, truth, testing::even_sizes(32, kMaxRows), 0));
  ASSERT_EQ(curve.family(), "staircase") << curve.quality.reason;
  const auto& staircase = std::get<StaircaseCurve>(curve.shape);
  EXPECT_NEAR(staircase.period_x, 264, 0.02 * 264);
  EXPECT_NEAR(staircase.step_us, 50, 0.5);
  EXPECT_NEAR(staircase.alpha_us, 10, 1);
  for (int rows = 128; rows <= 4096; rows += 128)
    EXPECT_NEAR(curve.time_us(rows) / truth.time_us(rows), 1, 1e-6) << rows;
}

TEST(CurveChoice, AThreeKnotTruthIsFittedBySegments) {
  int found = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    Random random(seed);
    const CostCurve truth = testing::segments_truth(random, kMaxRows);
    const CostCurve curve = fit(samples_of(random, truth, testing::even_sizes(24, kMaxRows), 0.01));
    if (curve.family() == "segments") ++found;
  }
  EXPECT_GE(found, 11);
}

TEST(CurveChoice, ThreeKnotsWithoutNoiseAreRecovered) {
  // Starts at 10 us; the slope is 0.1 up to 1000, 0.4 up to 2000, 0.05 up to 3000 and 0.3 beyond. At the knots the
  // times are 110, 510 and 560 us.
  const CostCurve truth = testing::truth_of(
      SegmentsCurve{1, {1000, 2000, 3000}, {{0, 0.1, 10}, {0, 0.4, -290}, {0, 0.05, 410}, {0, 0.3, -340}}}, kMaxRows);
  Random random(1);
  const CostCurve curve = fit(samples_of(random, truth, testing::even_sizes(32, kMaxRows), 0));
  ASSERT_EQ(curve.family(), "segments") << curve.quality.reason;
  const auto& segments = std::get<SegmentsCurve>(curve.shape);
  ASSERT_EQ(segments.knots_x.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(segments.knots_x[i], 1000.0 * (static_cast<double>(i) + 1), 10);
  for (double x = 130; x < kMaxRows; x += 97) EXPECT_NEAR(curve.time_us(x) / truth.time_us(x), 1, 0.01) << x;
}

TEST(CurveChoice, InterpolatesOnlyWhatNoFamilyDescribes) {
  // The slope swings smoothly between 0.01 and 0.19 us/row three times, which is more bends than any family has knots.
  std::vector<FitPoint> points;
  for (const double x : testing::even_sizes(36, kMaxRows))
    points.push_back({x, 50 + 0.1 * x + 18 * std::sin(x / 200), 0, 1});
  const CostCurve curve = fit(points);
  EXPECT_EQ(curve.family(), "interpolated") << curve.quality.reason;
  EXPECT_THAT(curve.quality.reason, HasSubstr("chosen because every other family is clearly worse"));
  for (const FitPoint& point : points) EXPECT_NEAR(curve.time_us(point.x), point.time_us, 1e-9);
  EXPECT_TRUE(curve.validate().ok());
}

TEST(CurveChoice, InterpolationIsNotNeededForJumps) {
  // The times jump by factors of 3, 2 and 4. Interpolation predicts the times beside a jump no better than other
  // families do.
  std::vector<FitPoint> points;
  for (const double x : testing::even_sizes(30, kMaxRows)) {
    const double level_us = x < 500 ? 10 : x < 1300 ? 30 : x < 2900 ? 60 : 240;
    points.push_back({x, level_us + 0.001 * x, 0, 1});
  }
  const CostCurve curve = fit(points);
  EXPECT_NE(curve.family(), "interpolated") << curve.quality.reason;
  EXPECT_GT(curve.relative_interval, 0.1); // the wide interval says that the fit is poor
}

TEST(CurveChoice, TheReasonNamesEveryFamilyTriedWithItsError) {
  Random random(3);
  const CostCurve truth = testing::affine_truth(random, kMaxRows);
  const CostCurve curve = fit(samples_of(random, truth, testing::even_sizes(15, kMaxRows), 0.02));
  for (const char* family : {"affine: cross-validated error ", " % for staircase", " % for piecewise",
                             " % for segments with 2 knots", " % for segments with 3 knots",
                             " % for segments with 4 knots", " % for interpolated", "chosen as the simplest"})
    EXPECT_THAT(curve.quality.reason, HasSubstr(family));
}

TEST(CurveChoice, TwinSizesProveNothing) {
  // Five groups of three sizes each, within 1 %. If cross-validation predicted a size from its twins, interpolation
  // would look perfect.
  for (unsigned seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const CostCurve truth = testing::affine_truth(random, kMaxRows);
    const CostCurve curve = fit(samples_of(random, truth, testing::clustered_sizes(15, kMaxRows), 0.02));
    EXPECT_NE(curve.family(), "interpolated") << curve.quality.reason;
  }
}

struct Coverage {
  int inside = 0;
  int total = 0;
  [[nodiscard]] double ratio() const { return inside / static_cast<double>(total); }
};

/// Counts how many new timings, at the fitted sizes and between them, lie inside the fitted interval.
void add_coverage(MakeTruth make_truth, unsigned seed, double noise, Coverage& coverage) {
  Random random(seed);
  const CostCurve truth = make_truth(random, kMaxRows);
  const std::vector<double> sizes = testing::geometric_sizes(20, kMaxRows);
  const CostCurve curve = fit(samples_of(random, truth, sizes, noise));
  std::vector<double> asked = sizes;
  for (int i = 0; i < 20; ++i) asked.push_back(testing::uniform(random, sizes.front(), sizes.back()));
  for (const double x : asked) {
    const double again_us = testing::noisy(random, truth.time_us(x), noise);
    if (std::abs(again_us / curve.time_us(x) - 1) <= curve.relative_interval) ++coverage.inside;
    ++coverage.total;
  }
}

TEST(CurveChoice, IntervalsOfNinetyPercentCoverEightyFiveToNinetyFive) {
  Coverage all;
  for (const MakeTruth make_truth :
       {testing::affine_truth, testing::piecewise_truth, testing::segments_truth, testing::staircase_truth}) {
    Coverage one;
    for (const double noise : {0.01, 0.03, 0.05})
      for (unsigned seed = 0; seed < 4; ++seed) add_coverage(make_truth, 100 + seed, noise, one);
    EXPECT_GE(one.ratio(), 0.83); // wide bounds: the timings are of only 12 curves
    EXPECT_LE(one.ratio(), 0.97);
    all.inside += one.inside;
    all.total += one.total;
  }
  EXPECT_GE(all.ratio(), 0.85);
  EXPECT_LE(all.ratio(), 0.95);
}

TEST(CurveChoice, EveryChoiceIsAValidCurve) {
  for (const MakeTruth make_truth :
       {testing::affine_truth, testing::piecewise_truth, testing::segments_truth, testing::staircase_truth}) {
    for (unsigned seed = 0; seed < 5; ++seed) {
      Random random(seed);
      const CostCurve truth = make_truth(random, kMaxRows);
      const CostCurve curve = fit(samples_of(random, truth, testing::geometric_sizes(14, kMaxRows), 0.1));
      EXPECT_TRUE(curve.validate().ok()) << curve.validate().error().text();
    }
  }
}

} // namespace
} // namespace mc2::profiler::curve_choice_test
