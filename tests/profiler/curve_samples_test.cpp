#include "mc2/profiler/curve_samples.hpp"

#include <gtest/gtest.h>

#include "support/models.hpp"

namespace mc2::profiler::curve_samples_test {
namespace {

using planner::Component;
using planner::Context;
using planner::Sample;

Sample matmul(std::int64_t rows, std::int64_t ns) {
  Sample sample;
  sample.variant = "direct";
  sample.block_rows = rows;
  sample.time = std::chrono::nanoseconds(ns);
  return sample;
}

planner::Profile profile_of(std::vector<Sample> samples) {
  planner::Profile profile;
  profile.samples = std::move(samples);
  return profile;
}

TEST(CurveSamples, AreThoseOfTheLaneAndVariantInTheirOrder) {
  Sample collective = matmul(16, 900);
  collective.component = Component::Collective;
  collective.message_bytes = 4096;
  Sample other = matmul(16, 700);
  other.variant = "copy_engine";
  const auto profile = profile_of({matmul(32, 2000), collective, other, matmul(16, 1000)});
  const auto samples = curve_samples(profile, Component::Matmul, "direct");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_DOUBLE_EQ(samples[0].x, 32);
  EXPECT_DOUBLE_EQ(samples[0].time_us, 2);
  EXPECT_DOUBLE_EQ(samples[1].x, 16);
  const auto messages = curve_samples(profile, Component::Collective, "direct");
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_DOUBLE_EQ(messages[0].x, 4096);
}

TEST(CurveSamples, TellWhatWasLeftOutAndWhatRanBesideTheOtherLane) {
  Sample outlier = matmul(16, 9000), co_run = matmul(16, 1500);
  outlier.is_outlier = true;
  co_run.context = Context::CoRun;
  const auto samples = curve_samples(profile_of({outlier, co_run}), Component::Matmul, "direct");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_TRUE(samples[0].is_outlier);
  EXPECT_TRUE(samples[1].is_co_run);
}

TEST(CurveSamples, LeaveOutTimesAndSizesThatAreNotPositive) {
  EXPECT_TRUE(curve_samples(profile_of({matmul(16, 0), matmul(0, 100)}), Component::Matmul, "direct").empty());
}

TEST(CurveSamples, AreCorrectedForDrift) {
  // Five sizes in three rounds; everything in the last round takes twice as long. After correction each size takes the
  // same time in every round.
  std::vector<Sample> all;
  for (int round = 0; round < 3; ++round)
    for (std::int64_t rows = 16; rows <= 80; rows += 16) {
      all.push_back(matmul(rows, rows * 100 * (round == 2 ? 2 : 1)));
      all.back().round = round;
    }
  const auto samples = curve_samples(profile_of(all), Component::Matmul, "direct");
  ASSERT_EQ(samples.size(), 15U);
  for (std::size_t size = 0; size < 5; ++size) {
    EXPECT_NEAR(samples[size].time_us, samples[size + 10].time_us, 1e-9);
    EXPECT_NEAR(samples[size].time_us, samples[size + 5].time_us, 1e-9);
  }
}

TEST(CurveSamples, AreAsFarOffAsTheModelExpectsOtherwise) {
  const auto curve = mc2::testing::affine(planner::CurveAxis::Rows, 10, 0.5); // 20 us for 20 rows
  EXPECT_DOUBLE_EQ(relative_residual(curve, 2, {20, 25, false, false}), 0.25);
  EXPECT_DOUBLE_EQ(relative_residual(curve, 2, {20, 30, true, false}),
                   -0.25); // the model expects 40 us beside the other lane
  EXPECT_DOUBLE_EQ(relative_residual(curve, 2, {0, 30, false, false}), 0);
}

TEST(CurveSamples, AreThinnedEvenly) {
  std::vector<CurveSample> samples;
  for (int i = 0; i < 7; ++i) samples.push_back({static_cast<double>(i), 1, false, false});
  EXPECT_EQ(thinned(samples, 8).size(), 7U);
  const auto few = thinned(samples, 3); // keeps every third: the step is 7 / 3 + 1
  ASSERT_EQ(few.size(), 3U);
  EXPECT_DOUBLE_EQ(few[1].x, 3);
}

} // namespace
} // namespace mc2::profiler::curve_samples_test
