#include "mc2/planner/speed_spread.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
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
  // Of the prior's ten deviations the tenth: 0.03 times the 95 % quantile of a half-normal variable, 1.96.
  const SpeedSpread spread = speed_spread({});
  EXPECT_NEAR(spread.compute, std::expm1(0.0588), 1e-12);
  EXPECT_NEAR(spread.communication, std::expm1(0.0588), 1e-12);
  EXPECT_NEAR(spread.overlap, std::expm1(0.0196), 1e-12);
  EXPECT_EQ(speed_spread(std::vector<SpeedRatio>{{0, 0, 0}}), spread);
}

TEST(SpeedSpread, LearnsEachLaneFromWhatWasPredictedOfIt) {
  // Only the first of the 20 ratios is missed: from then on, the quantile is the largest deviation seen.
  const std::vector<SpeedRatio> ratios(20, SpeedRatio{2, 1, 1.5});
  const SpeedSpread spread = speed_spread(ratios);
  EXPECT_DOUBLE_EQ(spread.compute, 2 - 1.0);
  EXPECT_DOUBLE_EQ(spread.overlap, 1.5 - 1.0);
  // All 20 deviations are 0 and were covered, so the share left out has risen to 20 %. Of 30 deviations that is the
  // 25th, the prior's 5th.
  EXPECT_NEAR(spread.communication, std::expm1(0.03 * 0.5978), 1e-12);
}

TEST(SpeedSpread, ATimeThatIsTooLongCountsAsOneThatIsTooShort) {
  const std::vector<SpeedRatio> slow(20, SpeedRatio{2, 2, 2}), fast(20, SpeedRatio{0.5, 0.5, 0.5});
  EXPECT_DOUBLE_EQ(speed_spread(slow).compute, speed_spread(fast).compute);
}

/// The share, in per cent, of times that lie within the spread learned from the hundred times before.
template <typename Draw>
double coverage(int count, const Draw& draw) {
  std::deque<SpeedRatio> newest_first;
  int covered = 0;
  for (int i = 0; i < count; ++i) {
    const std::vector<SpeedRatio> known(newest_first.begin(), newest_first.end());
    const double ratio = draw(i);
    covered += std::abs(ratio - 1) <= speed_spread(known).compute ? 1 : 0;
    newest_first.push_front({ratio, ratio, ratio});
    if (newest_first.size() > 100) newest_first.pop_back();
  }
  return 100.0 * covered / count;
}

TEST(SpeedSpread, ShortRunsTellNothingOfLongOnes) {
  std::vector<SpeedRatio> ratios(30, {3, 3, 0, 30}); // a slow start, which no profile sees
  EXPECT_EQ(speed_spread(ratios, 1000), speed_spread({}));
  EXPECT_GT(speed_spread(ratios, 40).compute, 1);
  EXPECT_GT(speed_spread(ratios).compute, 1);
  ratios.push_back({1.5, 1.5, 0, 250}); // the run takes within a factor of 4 of 1000 us
  EXPECT_EQ(speed_spread(ratios, 1000), speed_spread(std::vector<SpeedRatio>{{1.5, 1.5, 0, 250}}));
}

TEST(SpeedSpread, CoversNinetyPercentOfANewTimeWhateverTheDistribution) {
  // Heavy tails: one time in eight is 1.6 times as long.
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.02);
  std::bernoulli_distribution is_slow(0.125);
  EXPECT_NEAR(coverage(2000, [&](int) { return std::exp(noise(random)) * (is_slow(random) ? 1.6 : 1); }), 90, 2.5);
}

TEST(SpeedSpread, CoversNinetyPercentOfAMachineThatChangesItsSpeedForGood) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.02);
  EXPECT_NEAR(coverage(2000, [&](int i) { return std::exp(noise(random)) * (i / 150 % 2 == 1 ? 1.3 : 1); }), 90, 2.5);
}

CostModel measured_model() {
  CostModel model = model_of(kOp, affine(CurveAxis::Rows, 10, 0.5), affine(CurveAxis::Bytes, 20, 1e-3), 1.1, 1.2);
  model.variants.front().compute.curve.is_analytic = false;
  model.variants.front().communication.curve.is_analytic = false;
  return model;
}

/// A run whose lanes took `compute` and `communication` times what the model says.
UncutRun run_of(OpSpec op, double compute, double communication) {
  const Plan whole = serial_plan(op, measured_model(), measured_model().variants.front().variant).value();
  return {std::move(op), whole.variant, compute * whole.compute_us, communication * whole.communication_us};
}

TEST(SpeedLevel, ANewerRunCountsMoreAndTheProfileAlways) {
  const CostModel model = measured_model();
  EXPECT_EQ(speed_level(run_speeds(model, {}, {}), kOp), SpeedLevel());
  // The run weighs 1, the profile 1/2.
  const std::vector<UncutRun> one{run_of(kOp, 1.3, 0.9)};
  EXPECT_NEAR(speed_level(run_speeds(model, {}, one), kOp).compute, std::pow(1.3, 1 / 1.5), 1e-9);
  EXPECT_NEAR(speed_level(run_speeds(model, {}, one), kOp).communication, std::pow(0.9, 1 / 1.5), 1e-9);
  // The newer run weighs 1, the older one 1/2, the profile 1/2.
  const std::vector<UncutRun> two{run_of(kOp, 1.3, 1), run_of(kOp, 1.1, 1)};
  EXPECT_NEAR(speed_level(run_speeds(model, {}, two), kOp).compute, std::exp((std::log(1.3) + std::log(1.1) / 2) / 2),
              1e-9);
  EXPECT_EQ(speed_level(run_speeds(model, {}, two), kOp).run_count, 2);
}

TEST(SpeedLevel, ARunOfAnotherLengthCountsTheLessTheFartherItIs) {
  // A run of a quarter of the length weighs 1/4, the profile 1/2. So does a run of four times the length.
  const CostModel model = measured_model();
  for (const std::int64_t m : {kOp.m / 4, kOp.m * 4}) {
    OpSpec other = kOp;
    other.m = m;
    const std::vector<UncutRun> one{run_of(other, 1.3, 1)};
    EXPECT_NEAR(speed_level(run_speeds(model, {}, one), kOp).compute, std::pow(1.3, 1.0 / 3), 1e-9);
    EXPECT_NEAR(speed_level(run_speeds(model, {}, one), other).compute, std::pow(1.3, 1 / 1.5), 1e-9);
  }
}

TEST(SpeedLevel, IsOfTheModelsOperatorAndVariantsOnly) {
  UncutRun other_width = run_of(kOp, 2, 2), other_variant = run_of(kOp, 2, 2), no_time = run_of(kOp, 2, 2);
  other_width.op.n *= 2;
  other_variant.variant.name = "unheard of";
  no_time.compute_us = 0;
  EXPECT_EQ(speed_level(run_speeds(measured_model(), {}, std::vector{other_width, other_variant, no_time}), kOp),
            SpeedLevel());
}

TEST(SpeedLevel, MovesMeasuredCurves) {
  const CostModel model = measured_model();
  const CostModel now = with_level(model, {.compute = 1.25, .communication = 0.8, .run_count = 1});
  const Variant& variant = model.variants.front().variant;
  const Plan then = serial_plan(kOp, model, variant).value(), plan = serial_plan(kOp, now, variant).value();
  EXPECT_NEAR(plan.compute_us, 1.25 * then.compute_us, 1e-6);
  EXPECT_NEAR(plan.communication_us, 0.8 * then.communication_us, 1e-6);
  CostModel analytic = model;
  analytic.variants.front().compute.curve.is_analytic = true;
  EXPECT_EQ(with_level(analytic, {.compute = 2, .communication = 1, .run_count = 1}), analytic);
}

TEST(SpeedSpread, OfOverlapWidensBenefitAndMakespanOfWhatOverlaps) {
  const CostModel model = model_of(kOp, affine(CurveAxis::Rows, 10, 1), affine(CurveAxis::Bytes, 20, 1.0 / 4096), 1, 1);
  const Plan cut = predict_cut(kOp, model, equal_blocks(kOp, 512)).value();
  CostModel unsure = with_spread(model, {.compute = 0, .communication = 0, .overlap = 0.1});
  const Plan wider = predict_cut(kOp, unsure, equal_blocks(kOp, 512)).value();
  EXPECT_EQ(wider.makespan.us, cut.makespan.us);
  EXPECT_NEAR(wider.makespan.low_us, 0.9 * cut.makespan.us, 1e-9); // the model's own intervals are 0
  EXPECT_NEAR(wider.makespan.high_us, 1.1 * cut.makespan.us, 1e-9);
  EXPECT_NEAR(wider.benefit_interval->low, cut.benefit() - 0.1 * (1 - cut.benefit()), 1e-12);
  const Variant& variant = model.variants.front().variant;
  EXPECT_EQ(serial_plan(kOp, unsure, variant).value(), serial_plan(kOp, model, variant).value());
  unsure.variants.front().compute.curve.is_analytic = true; // published constants have intervals of their own
  EXPECT_EQ(predict_cut(kOp, unsure, equal_blocks(kOp, 512)).value().makespan.high_us, cut.makespan.us);
}

TEST(Distance, WidensMakespanAndBenefitByThreePercentForEachDoubling) {
  const CostModel model = model_of(kOp, affine(CurveAxis::Rows, 10, 1), affine(CurveAxis::Bytes, 20, 1.0 / 4096), 1, 1);
  const Cut cut = equal_blocks(kOp, 512);
  const Plan near = predict_cut(kOp, model, cut).value();
  EXPECT_EQ(near.makespan.high_us, near.makespan.us); // the model's own intervals are 0, and all lengths are measured
  CostModel short_one = model;
  short_one.variants.front().compute.curve.valid_max_x = 256;
  const Plan far = predict_cut(kOp, short_one, cut).value();
  EXPECT_EQ(far.makespan.us, near.makespan.us);
  EXPECT_NEAR(far.makespan.high_us, 1.03 * far.makespan.us, 1e-9); // 512 is one doubling beyond 256
  const double of_serial = 0.03 * std::log2(static_cast<double>(kOp.m) / 256);
  EXPECT_NEAR(far.benefit_interval->low, far.benefit() - std::hypot(0.03, of_serial) * (1 - far.benefit()), 1e-9);
  const Plan serial = serial_plan(kOp, short_one, model.variants.front().variant).value();
  EXPECT_EQ(serial.benefit_interval->low, 0); // nothing is compared
}

TEST(SpeedSpread, NeverPromisesABenefitAboveHalfOfTheTime) {
  CostModel model = model_of(kOp, affine(CurveAxis::Rows, 10, 1), affine(CurveAxis::Bytes, 20, 1.0 / 4096), 1, 1);
  for (LaneCost* lane : {&model.variants.front().compute, &model.variants.front().communication})
    lane->curve.relative_interval = 20;
  model = with_spread(model, {.compute = 3, .communication = 3, .overlap = 3});
  const Plan cut = predict_cut(kOp, model, equal_blocks(kOp, 512)).value();
  EXPECT_LT(cut.benefit_interval->low, cut.benefit());
  EXPECT_EQ(cut.benefit_interval->high, 0.5); // of two lanes the shorter one can be hidden, no more
}

TEST(SpeedSpread, WidensNoIntervalBeyondWhatAModelMayHave) {
  CostModel model = model_of(kOp, affine(CurveAxis::Rows, 10, 1), affine(CurveAxis::Bytes, 20, 1.0 / 4096), 1, 1);
  model.variants.front().compute.curve.relative_interval = 999.9;
  EXPECT_TRUE(with_spread(model, {.compute = 100, .communication = 100, .overlap = 0}).validate());
}

TEST(SpeedSpread, OfMakespansIsLearnedFromRunsThatSayIt) {
  std::vector<SpeedRatio> ratios(20, {.compute = 2, .communication = 0.5, .makespan = 1.1});
  EXPECT_DOUBLE_EQ(speed_spread(ratios).makespan, 1.1 - 1);
  for (SpeedRatio& one : ratios) one.makespan = 0; // runs that were kept without a makespan
  EXPECT_EQ(speed_spread(ratios).makespan, 0);
  EXPECT_EQ(speed_spread({}).makespan, 0);
}

TEST(SpeedSpread, TheNarrowerOfLanesAndWholeRunsHoldsTheTime) {
  const CostModel model = model_of(kOp, affine(CurveAxis::Rows, 10, 1), affine(CurveAxis::Bytes, 20, 1.0 / 4096), 1, 1);
  const Variant& variant = model.variants.front().variant;
  const auto high = [&](const CostModel& now, const Cut& cut) {
    const Plan plan = predict_cut(kOp, now, cut).value();
    return plan.makespan.high_us / plan.makespan.us;
  };
  SpeedSpread spread{.compute = 0.5, .communication = 0.5, .overlap = 0, .makespan = 0.1};
  const CostModel known = with_spread(model, spread); // the curves' own intervals are 0
  EXPECT_NEAR(high(known, equal_blocks(kOp, 512)), 1.1, 1e-9);
  EXPECT_NEAR(high(known, uncut(kOp)), 1.1, 1e-9);
  const Estimate serial = serial_plan(kOp, known, variant).value().makespan;
  EXPECT_NEAR(serial.high_us, 1.1 * serial.us, 1e-9);
  spread.makespan = 2;
  const double by_lanes = high(with_spread(model, spread), equal_blocks(kOp, 512));
  EXPECT_GT(by_lanes, 1.1);
  spread.makespan = 0; // no makespans are known
  EXPECT_EQ(high(with_spread(model, spread), equal_blocks(kOp, 512)), by_lanes);
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
