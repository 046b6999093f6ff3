#include "mc2/profiler/recalibrate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "mc2/planner/planner.hpp"
#include "mc2/planner/speed_spread.hpp"
#include "support/models.hpp"

namespace mc2::profiler::recalibrate_test {
namespace {

using planner::CostModel;
using planner::CurveAxis;
using planner::Cut;
using planner::MeasuredCut;

/// The factors that show only when both lanes run, not in either lane alone.
struct Factors {
  double compute_slowdown = 1, communication_slowdown = 1, fixed_us = 0;
};

/// A model of 4096 rows of 4096 bytes: compute takes 20 + 0.5 us/row, all-reduce 30 + 0.5 us/row. The lanes are
/// balanced, so that either lane's factor shows in some cut.
CostModel model_with(const Factors& factors) {
  CostModel model = mc2::testing::model_of(mc2::testing::all_reduce_op(4096, 1024, 512, planner::DType::F32, 2),
                                           mc2::testing::affine(CurveAxis::Rows, 20, 0.5),
                                           mc2::testing::affine(CurveAxis::Bytes, 30, 0.5 / 4096),
                                           factors.compute_slowdown, factors.communication_slowdown);
  model.variants[0].communication.fixed_us = factors.fixed_us; // the second lane of matmul + all-reduce
  return model;
}

const std::vector<Cut> kCuts{{{512, 3584}},
                             {{3584, 512}},
                             {{2048, 2048}},
                             {{1024, 1024, 1024, 1024}},
                             {{256, 1920, 1920}},
                             {{1920, 1920, 256}},
                             {std::vector<std::int64_t>(16, 256)}};

/// The race of a cut on a machine that `truth` describes, now `drift` times slower than when it was profiled.
MeasuredCut observe(const CostModel& truth, const Cut& cut, double drift = 1) {
  const double compute_us = drift * (20 + 0.5 * 4096), communication_us = drift * (30 + 0.5 * 4096);
  const CostModel now = planner::anchored(truth, truth.op, compute_us, communication_us);
  const auto& variant = truth.variants[0].variant;
  const double fused_us = planner::predict_cut(truth.op, now, variant, cut).value().makespan.us;
  return {{.fused_us = fused_us, .compute_us = compute_us, .communication_us = communication_us}, variant, cut};
}

std::vector<MeasuredCut> observe_all(const CostModel& truth) {
  std::vector<MeasuredCut> observations;
  for (const Cut& cut : kCuts) observations.push_back(observe(truth, cut));
  return observations;
}

Factors factors_of(const CostModel& model) {
  const auto& cost = model.variants[0];
  return {cost.compute.slowdown, cost.communication.slowdown, cost.communication.fixed_us};
}

constexpr Factors kTruth{1.2, 1.3, 12};
/// A prior so wide that the races alone decide.
constexpr RecalibrateOptions kOpenMind{.slowdown_spread = 10, .fixed_spread = 10, .measurement_spread = 0.001};

TEST(Recalibrate, JudgesEachVariantByItsOwnRaces) {
  const CostModel truth = model_with(kTruth);
  CostModel profiled = model_with({1, 1, 0});
  profiled.variants.push_back(profiled.variants[0]);
  profiled.variants[0].variant.fields["ctas"] = "8"; // same name, different settings
  profiled.variants[1].variant.fields["ctas"] = "16";
  auto seen = observe_all(truth);
  for (auto& one : seen) one.variant = profiled.variants[1].variant;
  const auto found = recalibrate(profiled, seen, kOpenMind).value();
  EXPECT_EQ(found.model.variants[0], profiled.variants[0]);
  EXPECT_NEAR(found.model.variants[1].compute.slowdown, kTruth.compute_slowdown, 0.01);

  auto of_first = observe_all(model_with({1.5, 1.1, 3}));
  for (auto& one : of_first) one.variant = profiled.variants[0].variant;
  seen.insert(seen.end(), of_first.begin(), of_first.end());
  const auto both = recalibrate(profiled, seen, kOpenMind).value();
  EXPECT_NEAR(both.model.variants[0].compute.slowdown, 1.5, 0.02);
  EXPECT_NEAR(both.model.variants[1].compute.slowdown, kTruth.compute_slowdown, 0.02);
  EXPECT_LT(both.error_after, 0.002);
  EXPECT_THAT(both.text, ::testing::HasSubstr("(ctas=16): slow-down compute 1.2"));
}

TEST(Recalibrate, FindsTheFactorsThatTheRacesShow) {
  const auto found = recalibrate(model_with({1, 1, 0}), observe_all(model_with(kTruth)), kOpenMind).value();
  const Factors factors = factors_of(found.model);
  EXPECT_NEAR(factors.compute_slowdown, kTruth.compute_slowdown, 0.01);
  EXPECT_NEAR(factors.communication_slowdown, kTruth.communication_slowdown, 0.01);
  EXPECT_NEAR(factors.fixed_us, kTruth.fixed_us, 1);
  EXPECT_GT(found.error_before, 0.05);
  EXPECT_LT(found.error_after, 0.001);
  EXPECT_THAT(found.text, ::testing::HasSubstr("7 raced cuts"));
}

TEST(Recalibrate, ExplainsTheRacesFromAnUncertainProfile) {
  const auto found = recalibrate(model_with({1.1, 1.15, 5}), observe_all(model_with(kTruth))).value();
  const Factors factors = factors_of(found.model);
  EXPECT_LT(found.error_after, found.error_before / 5);
  EXPECT_NEAR(factors.compute_slowdown, kTruth.compute_slowdown, 0.03);
  EXPECT_NEAR(factors.communication_slowdown, kTruth.communication_slowdown, 0.05);
}

TEST(Recalibrate, LearnsHowFarAPredictionMayBeOff) {
  // The model is exact, so only the prior's spread remains: 4 prior residuals of 1 %, over 4 + 7 degrees less the two
  // to three that 7 races take to determine three factors. t_0.95 of 8 to 9 degrees of freedom is 1.860 to 1.833.
  const auto exact = recalibrate(model_with(kTruth), observe_all(model_with(kTruth))).value();
  EXPECT_GT(exact.model.anchored_interval.value(), 1.833 * 0.01 * std::sqrt(4.0 / 9));
  EXPECT_LT(exact.model.anchored_interval.value(), 1.860 * 0.01 * std::sqrt(4.0 / 8));
  auto noisy = observe_all(model_with(kTruth));
  for (std::size_t i = 0; i < noisy.size(); ++i) noisy[i].fused_us *= i % 2 == 0 ? 1.05 : 0.95;
  EXPECT_GT(recalibrate(model_with(kTruth), noisy).value().model.anchored_interval.value(), 0.05);
}

TEST(Recalibrate, OneRaceLeavesFewDegreesOfFreedom) {
  // One race determines about one factor: 4 prior residuals of 1 % over 4 degrees. t_0.95 of 4 is 2.132.
  const auto one = recalibrate(model_with(kTruth), std::vector{observe(model_with(kTruth), kCuts[2])}).value();
  EXPECT_GT(one.model.anchored_interval.value(), 2.132 * 0.01 * std::sqrt(4.0 / 5));
  EXPECT_LE(one.model.anchored_interval.value(), 2.132 * 0.01 + 1e-9);
}

/// How many of 40 simulated races of the first cuts gave an interval that holds for a further run of the judged cut.
/// The machine's factors are drawn from the prior, each measured time is off by 1 %.
int count_covered(std::size_t raced_count, const Cut& judged) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  const CostModel profiled = model_with({1.3, 1.3, 12});
  int covered = 0;
  for (int race = 0; race < 40; ++race) {
    const CostModel truth =
        model_with({std::max(1.0, 1.3 * std::exp(0.1 * normal(random))),
                    std::max(1.0, 1.3 * std::exp(0.1 * normal(random))), std::max(0.0, 12 + 30 * normal(random))});
    std::vector<MeasuredCut> raced;
    for (std::size_t i = 0; i < raced_count; ++i) {
      raced.push_back(observe(truth, kCuts[i]));
      raced.back().fused_us *= std::exp(0.01 * normal(random));
    }
    const CostModel learned = recalibrate(profiled, raced).value().model;
    const auto plan = planner::predict_cut(learned.op, learned, learned.variants[0].variant, judged).value();
    const double measured_us = observe(truth, judged).fused_us * std::exp(0.01 * normal(random));
    covered += std::abs(measured_us / plan.makespan.us - 1) <= planner::race_intervals(learned, plan).joined() ? 1 : 0;
  }
  return covered;
}

TEST(Recalibrate, ItsIntervalHoldsForCutsThatRacedAndForOthers) {
  for (const std::size_t raced_count : {1, 3})
    for (const Cut& judged : {kCuts[0], kCuts[3], kCuts[6]})
      EXPECT_GE(count_covered(raced_count, judged), 34) << raced_count << " raced, " << judged.text();
}

TEST(Recalibrate, SetsACutAsideThatTheOthersContradict) {
  auto odd = observe_all(model_with(kTruth));
  const CostModel profiled = model_with({1.1, 1.2, 10});
  auto rest = odd;
  rest.erase(rest.begin() + 2);
  odd[2].fused_us *= 1.5;
  const auto found = recalibrate(profiled, odd).value(), without = recalibrate(profiled, rest).value();
  EXPECT_EQ(found.model, without.model);
  EXPECT_EQ(found.error_after, without.error_after);
  EXPECT_THAT(found.text, ::testing::HasSubstr("6 raced cuts"));
  EXPECT_THAT(found.text, ::testing::HasSubstr("set aside: " + kCuts[2].text() + " (1.5"));
}

TEST(Recalibrate, BelievesTwoCutsThatContradictEachOther) {
  // Nothing tells which of the two is odd.
  std::vector<MeasuredCut> two{observe(model_with(kTruth), kCuts[2]), observe(model_with(kTruth), kCuts[3])};
  two[1].fused_us *= 1.5;
  const auto found = recalibrate(model_with(kTruth), two).value();
  EXPECT_THAT(found.text, ::testing::HasSubstr("2 raced cuts"));
  EXPECT_THAT(found.text, ::testing::Not(::testing::HasSubstr("set aside")));
}

TEST(Recalibrate, ChangesNothingButTheFactorsAndTheInterval) {
  const CostModel before = model_with({1, 1, 0});
  CostModel after = recalibrate(before, observe_all(model_with(kTruth))).value().model;
  after.variants[0].compute.slowdown = after.variants[0].communication.slowdown = 1;
  after.variants[0].communication.fixed_us = 0;
  after.anchored_interval.reset();
  EXPECT_FALSE(after.variants[0].open_steps.empty());
  after.variants[0].open_steps.clear();
  EXPECT_EQ(after, before);
}

TEST(Recalibrate, TellsWhatARunOfOneKernelTakesBesidesItsBlocks) {
  CostModel truth = model_with({1.2, 1.3, 0}), profiled = model_with({1.2, 1.3, 0});
  truth.variants[0].run_us = 300;
  const auto of_many = recalibrate(profiled, observe_all(truth), kOpenMind).value();
  EXPECT_EQ(of_many.model.variants[0].run_us, 0); // blocks that are launched one by one have no cost per run
  truth.variants[0].variant.name = profiled.variants[0].variant.name = "persistent";
  RecalibrateOptions open = kOpenMind;
  open.run_spread_us = 1000;
  const auto found = recalibrate(profiled, observe_all(truth), open).value();
  EXPECT_NEAR(found.model.variants[0].run_us, 300, 3);
  EXPECT_NEAR(found.model.variants[0].compute.slowdown, 1.2, 0.01);
  EXPECT_THAT(found.text, ::testing::HasSubstr("us per run"));
}

TEST(Recalibrate, LeavesAModelThatIsRight) {
  const auto found = recalibrate(model_with(kTruth), observe_all(model_with(kTruth))).value();
  EXPECT_LT(found.error_before, 1e-12);
  EXPECT_LT(found.error_after, 1e-6);
  EXPECT_NEAR(factors_of(found.model).compute_slowdown, kTruth.compute_slowdown, 1e-4);
}

TEST(Recalibrate, DoesNotTakeDriftForContention) {
  // The machine slows down from race to race; its uncut parts slow down by the same factor.
  std::vector<MeasuredCut> observations;
  double drift = 0.8;
  for (const Cut& cut : kCuts) observations.push_back(observe(model_with({1.2, 1.3, 0}), cut, drift += 0.1));
  const auto found = recalibrate(model_with({1, 1, 0}), observations, kOpenMind).value();
  EXPECT_NEAR(factors_of(found.model).compute_slowdown, 1.2, 0.01);
  EXPECT_NEAR(factors_of(found.model).communication_slowdown, 1.3, 0.01);
  EXPECT_NEAR(factors_of(found.model).fixed_us, 0, 1);
}

TEST(Recalibrate, OneRaceMovesTheFactorsNoFurtherThanItMust) {
  const auto found = recalibrate(model_with({1, 1, 0}), std::vector{observe(model_with(kTruth), kCuts[2])}).value();
  EXPECT_LT(found.error_after, found.error_before);
  EXPECT_GE(factors_of(found.model).compute_slowdown, 1);
  EXPECT_LT(factors_of(found.model).compute_slowdown, 1.3);
  EXPECT_LT(factors_of(found.model).communication_slowdown, 1.3);
}

TEST(Recalibrate, StartsSilentlyAtTheBounds) {
  // Every model without co-runs starts at the bounds: slow-downs of 1 and a fixed cost of 0.
  const CostModel model = model_with({1, 1, 0});
  ::testing::internal::CaptureStderr();
  const auto found = recalibrate(model, observe_all(model));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_NEAR(factors_of(found.value().model).compute_slowdown, 1, 1e-4);
  EXPECT_NEAR(factors_of(found.value().model).fixed_us, 0, 1e-2);
}

TEST(Recalibrate, ALaneThatTakesLessInACutMayTakeLessStill) {
  const CostModel truth = model_with({1, 0.4, 0}), profiled = model_with({1, 0.6, 0});
  const auto learned = recalibrate(profiled, observe_all(truth), kOpenMind).value();
  EXPECT_NEAR(factors_of(learned.model).communication_slowdown, 0.4, 0.01);
}

TEST(Recalibrate, ACollectiveOfWhichTheMatmulDoesAPartMayComeOutBelowOne) {
  const auto learn = [](const char* name) {
    CostModel truth = model_with({1, 0.7, 0}), profiled = model_with({1, 1, 0});
    truth.variants[0].variant.name = profiled.variants[0].variant.name = name;
    return factors_of(recalibrate(profiled, observe_all(truth), kOpenMind).value().model).communication_slowdown;
  };
  EXPECT_NEAR(learn(planner::kTileStoreVariant.data()), 0.7, 0.01);
  CostModel truth = model_with({1, 1.2, 0}),
            below = model_with({1, 0.9995, 0}); // 0.9995: just below 1, from races that told nothing
  truth.variants[0].variant.name = below.variants[0].variant.name = planner::kTileStoreVariant;
  EXPECT_NEAR(factors_of(recalibrate(below, observe_all(truth), kOpenMind).value().model).communication_slowdown, 1.2,
              0.01);
  EXPECT_NEAR(learn("direct"), 1, 0.01); // a cut of this variant cannot be faster than undisturbed lanes
}

TEST(Recalibrate, StaysInsideTheBoundsWhenTheRacesAreFasterThanPossible) {
  const CostModel model = model_with({1, 1, 0});
  auto observations = observe_all(model);
  for (auto& seen : observations) seen.fused_us *= 0.9;
  ::testing::internal::CaptureStderr();
  const auto found = recalibrate(model, observations, kOpenMind);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(factors_of(found.value().model).compute_slowdown, 1);
  EXPECT_EQ(factors_of(found.value().model).communication_slowdown, 1);
  EXPECT_EQ(factors_of(found.value().model).fixed_us, 0);
  EXPECT_TRUE(found.value().model.validate());
}

TEST(Recalibrate, RefusesWithoutObservations) {
  EXPECT_EQ(recalibrate(model_with(kTruth), {}).error().code, ErrorCode::CannotFit);
}

TEST(Recalibrate, RefusesTimesThatAreNoTimes) {
  const CostModel model = model_with(kTruth);
  for (const double time_us :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (double MeasuredCut::*field :
         {&MeasuredCut::fused_us, &MeasuredCut::compute_us, &MeasuredCut::communication_us}) {
      auto observations = observe_all(model);
      observations.back().*field = time_us;
      const auto refused = recalibrate(model, observations);
      ASSERT_FALSE(refused) << time_us;
      EXPECT_EQ(refused.error().code, ErrorCode::CannotFit) << time_us;
    }
  }
}

TEST(Recalibrate, RefusesAVariantThatTheModelDoesNotHave) {
  const CostModel model = model_with(kTruth);
  for (const std::size_t where : {std::size_t{0}, kCuts.size() - 1}) {
    auto observations = observe_all(model);
    observations[where].variant.name = "copy_engine";
    const auto refused = recalibrate(model, observations);
    ASSERT_FALSE(refused) << where;
    EXPECT_EQ(refused.error().code, ErrorCode::UnknownName) << where;
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("copy_engine"));
  }
}

TEST(Recalibrate, RefusesBlocksOfAnotherShapeAndAnInvalidModel) {
  const CostModel model = model_with(kTruth);
  auto observations = observe_all(model);
  observations[1].cut = {{4096, 1}};
  EXPECT_EQ(recalibrate(model, observations).error().code, ErrorCode::InvalidSpec);
  CostModel broken = model;
  broken.variants[0].compute.slowdown = 0.01;
  EXPECT_EQ(recalibrate(broken, observe_all(model)).error().code, ErrorCode::InvalidSpec);
}

} // namespace
} // namespace mc2::profiler::recalibrate_test
