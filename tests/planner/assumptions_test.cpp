#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mc2/planner/explanation.hpp"
#include "mc2/planner/plan_ranges.hpp"
#include "mc2/planner/planner.hpp"
#include "support/models.hpp"

namespace mc2::planner::assumptions_test {
namespace {

using mc2::testing::affine;
using ::testing::HasSubstr;

CostModel model_with(double compute_slowdown, double communication_slowdown, double fixed_us = 0) {
  CostModel model = mc2::testing::model_of(mc2::testing::all_reduce_op(4096, 1024, 512, DType::F32, 2),
                                           affine(CurveAxis::Rows, 20, 0.5), affine(CurveAxis::Bytes, 30, 0.5 / 4096),
                                           compute_slowdown, communication_slowdown);
  model.variants[0].compute.fixed_us = model.variants[0].communication.fixed_us = fixed_us;
  return model;
}

PlanOptions assuming(double compute, double communication, double overhead_us) {
  PlanOptions options;
  options.require_significant_gain = false;
  options.contention = LaneContention{compute, communication};
  options.block_overhead_us = overhead_us;
  return options;
}

TEST(Assumptions, StandInThePlaceOfTheModelsInEveryStrategy) {
  const CostModel measured = model_with(1, 1), assumed = model_with(1.2, 1.4, 15);
  for (const auto strategy : strategy_names()) {
    PlanOptions options = assuming(1.2, 1.4, 15);
    options.strategy = strategy;
    PlanOptions plain = options;
    plain.contention.reset();
    plain.block_overhead_us.reset();
    plain.formula_contention = 1.4; // the larger of the two lanes' factors
    const auto asked = make_plan(measured.op, measured, options), known = make_plan(assumed.op, assumed, plain);
    ASSERT_EQ(asked.ok(), known.ok()) << strategy;
    if (!asked) continue;
    EXPECT_EQ(asked.value().cut, known.value().cut) << strategy;
    EXPECT_EQ(asked.value().makespan.us, known.value().makespan.us) << strategy;
    EXPECT_EQ(asked.value().block_overhead_us, 15) << strategy;
    EXPECT_THAT(asked.value().reason, HasSubstr("1.2 (compute) and 1.4 (communication) and 15 us per block"));
  }
}

TEST(Assumptions, SayWhichLaneKeepsItsMeasuredFactor) {
  // The matmul does a fifth of the collective; that is no contention, so the 1.4 that was asked for does not hold.
  const CostModel model = model_with(1, 0.8);
  const Plan plan = make_plan(model.op, model, assuming(1.2, 1.4, 15)).value();
  EXPECT_THAT(plan.reason, HasSubstr("1.2 (compute) and none (communication, a part of which the other lane does)"));
}

TEST(Assumptions, HoldForRangesAndExplanationsToo) {
  const CostModel measured = model_with(1, 1), assumed = model_with(1.2, 1.4, 15);
  PlanOptions options = assuming(1.2, 1.4, 15), plain = options;
  plain.contention.reset();
  plain.block_overhead_us.reset();
  const auto asked = plan_ranges(measured.op, 1024, 4096, measured, options).value();
  EXPECT_EQ(asked.ranges, plan_ranges(assumed.op, 1024, 4096, assumed, plain).value().ranges);
  const Plan plan = make_plan(measured.op, measured, options).value();
  const auto explained = explain(plan, &measured, options).value();
  ASSERT_TRUE(explained.sensitivity.has_value());
  EXPECT_EQ(explained.sensitivity->best_cut, plan.cut);
}

TEST(Assumptions, AreRefusedOutsideTheirLimits) {
  const CostModel model = model_with(1, 1);
  for (const double factor : {0.9, 10.1, std::nan("")})
    EXPECT_EQ(make_plan(model.op, model, assuming(1, factor, 0)).error().field, "contention");
  EXPECT_EQ(make_plan(model.op, model, assuming(1, 1, -1)).error().field, "block_overhead_us");
}

TEST(Assumptions, AreReadFromOneFactorOrTwo) {
  EXPECT_EQ(parse_contention("1.25").value(), (LaneContention{1.25, 1.25}));
  EXPECT_EQ(parse_contention("1.1,1.3").value(), (LaneContention{1.1, 1.3}));
  for (const char* text : {"", ",", "1.1,", "x", "1.1,1.3,1.5", "1.1 1.3"})
    EXPECT_FALSE(parse_contention(text)) << text;
}

TEST(Assumptions, AnAssumedSlowdownWidensTheInterval) {
  CostModel sure = model_with(1.15, 1.15), unsure = sure;
  unsure.variants[0].compute.slowdown_interval = unsure.variants[0].communication.slowdown_interval = 0.15;
  const Cut cut{{512, 1792, 1792}};
  const Plan narrow = predict_cut(sure.op, sure, cut).value(), wide = predict_cut(sure.op, unsure, cut).value();
  EXPECT_EQ(narrow.makespan.us, wide.makespan.us);
  const Plan slow = predict_cut(sure.op, model_with(1.15 * 1.15, 1.15 * 1.15), cut).value();
  EXPECT_NEAR(wide.makespan.high_us, slow.makespan.us, 1e-6 * slow.makespan.us);
  EXPECT_LT(wide.benefit_interval->low, narrow.benefit_interval->low);
  unsure.variants[0].compute.slowdown_interval = 1;
  EXPECT_EQ(unsure.validate().error().field, "variants[0].compute.slowdown_interval");
}

TEST(PredictMakespans, AreThoseOfTheCutsPlans) {
  const CostModel model = model_with(1.2, 1.1, 5);
  const auto cuts = enumerate_cuts(model.op, PlanOptions()).value();
  const auto us = predict_makespans(model.op, model, model.variants[0].variant, cuts).value();
  ASSERT_EQ(us.size(), cuts.size());
  for (std::size_t i = 0; i < cuts.size(); i += 7)
    EXPECT_DOUBLE_EQ(us[i], predict_cut(model.op, model, cuts[i]).value().makespan.us) << cuts[i].text();
}

TEST(LengthSensitivities, SumToOneWhereNothingIsFixed) {
  const CostModel model = model_with(1.2, 1.1);
  for (const Cut& cut : {Cut{{512, 1792, 1792}}, Cut{{1792, 1792, 512}}, Cut{{2048, 2048}}}) {
    double sum = 0;
    for (const auto& one : length_sensitivities(model.op, model, model.variants[0].variant, cut).value())
      sum += one.share;
    EXPECT_NEAR(sum, 1, 0.01) << cut.text();
  }
}

TEST(ParseCut, ReadsWhatCutsAreWrittenAs) {
  for (const Cut& cut : {Cut{{512, 896, 896}}, Cut{{128, 128}}, Cut{{896, 896, 100}}, Cut{{1, 2, 3}}})
    EXPECT_EQ(parse_cut(cut.text()).value(), cut) << cut.text();
  EXPECT_EQ(parse_cut("512,4x896").value().block_rows.size(), 5U);
  for (const char* text : {"", "x", "512,", "0x4", "-1", "2000x1"})
    EXPECT_EQ(parse_cut(text).error().field, "blocks") << text;
}

} // namespace
} // namespace mc2::planner::assumptions_test
