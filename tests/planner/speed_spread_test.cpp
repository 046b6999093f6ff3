#include "mc2/planner/speed_spread.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/planner.hpp"
#include "support/models.hpp"

namespace mc2::planner::speed_spread_test {
namespace {

using testing::affine;
using testing::all_reduce_op;
using testing::model_of;

const OpSpec kOp = all_reduce_op(1024, 1024, 1024, DType::F32, 2);

TEST(SpeedSpread, IsThePriorsBeforeAnythingWasPredicted) {
  // The tenth of ten: 0.03 times the 95 % quantile of a half-normal variable, 1.96.
  const SpeedSpread spread = speed_spread({});
  EXPECT_NEAR(spread.compute, 0.0588, 1e-12);
  EXPECT_NEAR(spread.communication, 0.0588, 1e-12);
  EXPECT_NEAR(spread.overlap, 0.0196, 1e-12);
  EXPECT_EQ(speed_spread(std::vector<SpeedRatio>{{0, 0, 0}}), spread);
}

TEST(SpeedSpread, LearnsEachLaneFromWhatWasPredictedOfIt) {
  // Of 30 values the 28th covers 90 % of them and of one to come: 20 are log 2 and 10 the prior's.
  const std::vector<SpeedRatio> ratios(20, SpeedRatio{2, 1, 1.5});
  const SpeedSpread spread = speed_spread(ratios);
  EXPECT_DOUBLE_EQ(spread.compute, std::log(2));
  EXPECT_DOUBLE_EQ(spread.overlap, std::log(1.5));
  // 20 are 0, and of the prior's 10 the 8th is 1.1503.
  EXPECT_NEAR(spread.communication, 0.03 * 1.1503, 1e-12);
}

TEST(SpeedSpread, ATimeThatIsTooLongCountsAsOneThatIsTooShort) {
  const std::vector<SpeedRatio> slow(20, SpeedRatio{2, 2, 2}), fast(20, SpeedRatio{0.5, 0.5, 0.5});
  EXPECT_DOUBLE_EQ(speed_spread(slow).compute, speed_spread(fast).compute);
}

TEST(SpeedSpread, CoversNinetyPercentOfANewTimeWhateverTheDistribution) {
  // Heavy tails: one time in eight is 1.6 times as long, for minutes at a time elsewhere.
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.02);
  std::bernoulli_distribution is_slow(0.125);
  const auto draw = [&] { return std::exp(noise(random)) * (is_slow(random) ? 1.6 : 1); };
  int covered = 0;
  constexpr int kTrials = 2000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<SpeedRatio> ratios(60);
    for (SpeedRatio& one : ratios) one = {draw(), draw(), draw()};
    covered += std::abs(std::log(draw())) <= speed_spread(ratios).compute ? 1 : 0;
  }
  // The 64th of 70 values is the 54th of the 60: 54 / 61 = 88.5 % in the mean, less three deviations of 2000 trials.
  EXPECT_GE(covered, 0.864 * kTrials);
}

TEST(SpeedSpread, OfOverlapWidensBenefitAndMakespanOfWhatOverlaps) {
  const CostModel model = model_of(kOp, affine(CurveAxis::Rows, 10, 1), affine(CurveAxis::Bytes, 20, 1.0 / 4096), 1, 1);
  const Plan cut = predict_cut(kOp, model, equal_blocks(kOp, 512)).value();
  const Plan wider = with_wider_overlap(0.1, cut);
  EXPECT_EQ(wider.makespan.us, cut.makespan.us);
  EXPECT_NEAR(wider.makespan.high_us, 1.1 * cut.makespan.us, 1e-9); // the model's own intervals are 0
  EXPECT_NEAR(wider.benefit_interval->low, cut.benefit() - 0.1 * (1 - cut.benefit()), 1e-12);
  const Plan whole = serial_plan(kOp, model, model.variants.front().variant).value();
  EXPECT_EQ(with_wider_overlap(0.1, whole), whole);
}

TEST(SpeedSpread, WidensMeasuredCurvesAndNotWhatTheyLeaveOpen) {
  CostModel model = model_of(kOp, affine(CurveAxis::Rows, 10, 0.5), affine(CurveAxis::Bytes, 20, 1e-3), 1.1, 1.2);
  LaneCost& compute = model.variants.front().compute;
  compute.curve.is_analytic = false;
  compute.curve.relative_interval = 0.03;
  compute.curve.quality.point_count = 8;
  compute.curve.quality.relative_rms = 0.01;
  LaneCost& communication = model.variants.front().communication;
  communication.curve.is_analytic = true;
  communication.curve.relative_interval = 0.25;
  const CostModel wide = with_spread(model, {.compute = 0.04, .communication = 0.04, .overlap = 0});
  EXPECT_DOUBLE_EQ(wide.variants.front().compute.curve.relative_interval, 0.05);
  EXPECT_EQ(wide.variants.front().compute.curve.curve_interval(), compute.curve.curve_interval());
  EXPECT_EQ(wide.variants.front().communication, communication);
}

} // namespace
} // namespace mc2::planner::speed_spread_test
