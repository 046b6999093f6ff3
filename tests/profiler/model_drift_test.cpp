#include "mc2/profiler/model_drift.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace mc2::profiler::model_drift_test {
namespace {

using planner::Component;
using planner::Context;
using planner::Sample;

/// A model with 10 us per row of compute and 1 us per byte of communication, for sizes from 1 to 1000. Its intervals
/// are +- 5 % by default.
planner::CostModel model(double interval = 0.05) {
  const auto curve = [&](planner::CurveAxis axis, double slope) {
    planner::CostCurve curve;
    curve.axis = axis;
    curve.shape = planner::AffineCurve{0, slope};
    curve.valid_min_x = 1;
    curve.valid_max_x = 1000;
    curve.relative_interval = interval;
    return curve;
  };
  planner::CostModel model;
  model.variants.push_back({planner::Variant{"direct", {}},
                            {curve(planner::CurveAxis::Rows, 10), 0, 1.5},
                            {curve(planner::CurveAxis::Bytes, 1), 0, 1.5}});
  return model;
}

/// A sample of a matmul of 100 rows that took `ratio` times the model's 1000 us.
Sample matmul(double ratio) {
  Sample sample;
  sample.variant = "direct";
  sample.block_rows = 100;
  sample.time = std::chrono::nanoseconds(std::llround(1e6 * ratio));
  return sample;
}

std::vector<Sample> matmuls(int count, double ratio) {
  return std::vector<Sample>(static_cast<std::size_t>(count), matmul(ratio));
}

TEST(ModelDrift, SamplesThatAgreeAreNoDrift) {
  const ModelDrift drift = find_drift(model(), matmuls(20, 1.02));
  ASSERT_EQ(drift.lanes.size(), 1U) << "no samples of the other lane";
  EXPECT_EQ(drift.lanes[0].sample_count, 20);
  EXPECT_NEAR(drift.lanes[0].median_residual, 0.02, 1e-9);
  EXPECT_FALSE(drift.has_drifted());
  EXPECT_EQ(drift.text(), "");
}

TEST(ModelDrift, MedianBeyondTheLimitIsDriftOnEitherSide) {
  for (const double ratio : {1.3, 0.7}) {
    const ModelDrift drift = find_drift(model(), matmuls(8, ratio));
    EXPECT_TRUE(drift.has_drifted()) << ratio;
    EXPECT_NEAR(drift.lanes[0].median_residual, ratio - 1, 1e-9);
  }
  EXPECT_EQ(find_drift(model(), matmuls(8, 1.3)).text(),
            "matmul of direct: median +30.0 % of 8 samples, beyond +-10.0 %");
}

TEST(ModelDrift, LimitIsTheCurvesIntervalButAtLeastWhatSessionsDifferBy) {
  EXPECT_FALSE(find_drift(model(0.01), matmuls(8, 1.09)).has_drifted());
  EXPECT_TRUE(find_drift(model(0.01), matmuls(8, 1.11)).has_drifted());
  EXPECT_FALSE(find_drift(model(0.4), matmuls(8, 1.3)).has_drifted());
  EXPECT_TRUE(find_drift(model(0.4), matmuls(8, 1.5)).has_drifted());
}

TEST(ModelDrift, FewSamplesOrAFewWildOnesSayNothing) {
  EXPECT_FALSE(find_drift(model(), matmuls(7, 2)).has_drifted());
  auto samples = matmuls(10, 1);
  for (int i = 0; i < 4; ++i) samples[static_cast<std::size_t>(i)] = matmul(50);
  EXPECT_FALSE(find_drift(model(), samples).has_drifted()) << "the median of 10 is among the 6 that agree";
}

TEST(ModelDrift, OnlySamplesThatTheCurveSpeaksOfAreJudged) {
  const auto changed = [](auto change) {
    auto samples = matmuls(8, 2);
    for (Sample& sample : samples) change(sample);
    return find_drift(model(), samples).lanes.size();
  };
  EXPECT_EQ(changed([](Sample&) {}), 1U);
  EXPECT_EQ(changed([](Sample& s) { s.context = Context::CoRun; }), 0U);
  EXPECT_EQ(changed([](Sample& s) { s.is_outlier = true; }), 0U);
  EXPECT_EQ(changed([](Sample& s) { s.variant = "ring"; }), 0U);
  EXPECT_EQ(changed([](Sample& s) { s.block_rows = 1001; }), 0U);
  EXPECT_EQ(changed([](Sample& s) { s.time = {}; }), 0U);
}

TEST(ModelDrift, LanesAreJudgedApart) {
  auto samples = matmuls(8, 1);
  for (int i = 0; i < 8; ++i) {
    Sample sample = matmul(0);
    sample.component = Component::Collective;
    sample.message_bytes = 500;
    sample.time = std::chrono::microseconds(750); // the model expects 500 us
    samples.push_back(sample);
  }
  const ModelDrift drift = find_drift(model(), samples);
  ASSERT_EQ(drift.lanes.size(), 2U);
  EXPECT_FALSE(drift.lanes[0].has_drifted);
  EXPECT_TRUE(drift.lanes[1].has_drifted);
  EXPECT_NEAR(drift.lanes[1].median_residual, 0.5, 1e-9);
}

} // namespace
} // namespace mc2::profiler::model_drift_test
