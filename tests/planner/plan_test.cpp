#include "mc2/planner/plan.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "mc2/planner/planner.hpp"
#include "support/models.hpp"

namespace mc2::planner::plan_test {
namespace {

TEST(Cut, OrderNamesTheOddBlock) {
  EXPECT_EQ((Cut{{1024}}).order(), BlockOrder::Uncut);
  EXPECT_EQ((Cut{{512, 512}}).order(), BlockOrder::Uniform);
  EXPECT_EQ((Cut{{512, 896, 896}}).order(), BlockOrder::ShortFirst);
  EXPECT_EQ((Cut{{896, 896, 512}}).order(), BlockOrder::ShortLast);
  EXPECT_EQ((Cut{{512, 1024}}).order(), BlockOrder::ShortFirst);
  EXPECT_EQ((Cut{{1024, 512}}).order(), BlockOrder::ShortLast);
  EXPECT_EQ((Cut{{1, 2, 3}}).order(), BlockOrder::Free);
}

TEST(Cut, TextIsShort) {
  EXPECT_EQ((Cut{{1024}}).text(), "uncut");
  EXPECT_EQ((Cut{{128, 128, 128}}).text(), "3 x 128");
  EXPECT_EQ((Cut{{512, 896, 896, 896, 896}}).text(), "512 + 4 x 896");
  EXPECT_EQ((Cut{{896, 896, 100}}).text(), "2 x 896 + 100");
  EXPECT_EQ((Cut{{1, 2, 3}}).text(), "1 + 2 + 3");
}

TEST(Plan, BenefitAndOverlapEfficiency) {
  Plan plan;
  plan.serial_us = 100;
  plan.ideal_us = 60;
  plan.makespan.us = 70;
  EXPECT_DOUBLE_EQ(plan.benefit(), 0.3);             // (100 - 70) / 100
  EXPECT_DOUBLE_EQ(plan.overlap_efficiency(), 0.75); // saves 30 us of the 40 us that are possible
}

TEST(Plan, OfBlocksWithoutAModelPredictsNothing) {
  const OpSpec op{OpKind::AllGatherMatmul, 512, 64, 64, DType::F32, 2};
  const Fingerprint machine{{{"backend", "host"}}};
  const Plan plan = unpredicted_plan(op, machine, {"direct", {}}, {{128, 128}}).value();
  EXPECT_TRUE(plan.validate().ok());
  EXPECT_EQ(plan.op, op);
  EXPECT_EQ(plan.fingerprint, machine);
  EXPECT_FALSE(plan.has_timeline());
  EXPECT_EQ(plan.makespan.us, 0);
  EXPECT_EQ(plan.schedule, Schedule::LocalFirst);
  EXPECT_EQ(unpredicted_plan(op, machine, {"direct", {}}, {{128, 64}}).error().field, "blocks");
  EXPECT_EQ(unpredicted_plan({op.kind, 0, 64, 64, DType::F32, 2}, machine, {"direct", {}}, {{256}}).error().code,
            ErrorCode::InvalidSpec);
}

TEST(Plan, OverlapsAsMuchAsItsCutAndVariantLetIt) {
  const OpSpec plain = testing::all_reduce_op(512, 256, 64, DType::F32, 2);
  const OpSpec gather = testing::all_gather_model().op;
  const Variant whole{"direct", {}}, sliced{"direct", {{"slices", "4"}}};
  EXPECT_EQ(overlapping_schedule(plain, whole, {{512}}), Schedule::Serial);
  EXPECT_EQ(overlapping_schedule(plain, sliced, {{512}}), Schedule::Pipelined);
  EXPECT_EQ(overlapping_schedule(plain, whole, {{256, 256}}), Schedule::Pipelined);
  EXPECT_EQ(overlapping_schedule(gather, whole, {{256}}), Schedule::LocalFirst);
  const Fingerprint machine{{{"backend", "host"}}};
  EXPECT_FALSE(unpredicted_plan(plain, machine, whole, {{512}}).value().overlaps());
  EXPECT_TRUE(unpredicted_plan(plain, machine, sliced, {{512}}).value().overlaps());
  EXPECT_FALSE(unpredicted_plan(plain, machine, sliced, {{512}}, Schedule::Serial).value().overlaps());
  EXPECT_EQ(unpredicted_plan(plain, machine, whole, {{256, 256}}, Schedule::Serial).error().field, "is_serial");
  for (const auto schedule : {Schedule::Serial, Schedule::Pipelined, Schedule::LocalFirst})
    EXPECT_EQ(parse_schedule(to_string(schedule)).value(), schedule);
}

TEST(Plan, ThatIsNotToBeCutTakesAsLongAsSerial) {
  const CostModel computes_first =
      testing::model_of(testing::all_reduce_op(512, 256, 64, DType::F32, 2), testing::affine(CurveAxis::Rows, 10, 1),
                        testing::affine(CurveAxis::Bytes, 20, 1));
  for (const CostModel& model : {testing::all_gather_model(), computes_first}) {
    const Plan plan = serial_plan(model.op, model, model.variants.front().variant).value();
    EXPECT_TRUE(plan.validate().ok());
    EXPECT_EQ(plan.schedule, Schedule::Serial);
    EXPECT_FALSE(plan.is_cut() || plan.overlaps());
    EXPECT_EQ(plan.benefit(), 0);
    EXPECT_EQ(plan.timeline.overlap_us, 0);
    EXPECT_EQ(plan.timeline.makespan_us, plan.serial_us);
    EXPECT_EQ(plan.makespan.us, plan.serial_us);
    EXPECT_LE(plan.makespan.low_us, plan.makespan.us);
    const bool is_compute_first = traits_of(model.op.kind).first_lane == Lane::Compute;
    EXPECT_EQ(plan.timeline.first.front().end_us, is_compute_first ? plan.compute_us : plan.communication_us);
    EXPECT_EQ(serial_plan(model.op, model, {"none", {}}).error().code,
              predict_cut(model.op, model, {"none", {}}, plan.cut).error().code);
    Plan wrong = plan;
    wrong.cut.block_rows = {plan.cut.block_rows[0] - 1, 1};
    EXPECT_EQ(wrong.validate().error().field, "is_serial");
  }
}

/// The serial plan of 10 us on the first lane and 20 us on the second.
Plan serial_plan() {
  Plan plan;
  plan.op = {OpKind::MatmulAllReduce, 128, 64, 64, DType::F32, 2};
  plan.cut = {{128}};
  plan.makespan = {30, 29, 31, Provenance::Measured, ""};
  plan.serial_us = 30, plan.compute_us = 10, plan.communication_us = plan.ideal_us = 20;
  plan.slowdown = {1, 1};
  plan.timeline = {{{0, 10}}, {{10, 30}}, 30, 0};
  return plan;
}

TEST(Plan, ValidateNamesWhatCannotBe) {
  EXPECT_TRUE(serial_plan().validate().ok());
  const std::pair<const char*, void (*)(Plan&)> changes[]{
      {"makespan.us", [](Plan& plan) { plan.makespan.us = -1; }},
      {"makespan.low_us", [](Plan& plan) { plan.makespan.low_us = 32; }},
      {"serial_us", [](Plan& plan) { plan.serial_us = 2 * kMaxTimeUs; }},
      {"timeline.overlap_us", [](Plan& plan) { plan.timeline.overlap_us = -1; }},
      {"slowdown", [](Plan& plan) { plan.slowdown.second = 0.9; }},
      {"runners_up[0].makespan_us",
       [](Plan& plan) {
         plan.runners_up = {{{{128}}, {"direct", {}}, -1, ""}};
       }},
      {"block_overhead_us", [](Plan& plan) { plan.block_overhead_us = -1; }},
      {"serial_us", [](Plan& plan) { plan.serial_us = 30.001; }},
      {"serial_us", [](Plan& plan) { plan.serial_us = plan.compute_us = plan.communication_us = plan.ideal_us = 0; }},
      {"ideal_us", [](Plan& plan) { plan.ideal_us = 10; }},
      {"timeline", [](Plan& plan) { plan.timeline = {}; }},
      {"benefit_interval.low",
       [](Plan& plan) {
         plan.benefit_interval = {0, std::numeric_limits<double>::infinity()};
       }},
      {"runners_up[0].cut",
       [](Plan& plan) {
         plan.runners_up = {{{{64, 63}}, {"direct", {}}, 1, ""}};
       }},
      {"certificate.candidate_count",
       [](Plan& plan) {
         plan.certificate = Certificate{4, 3, 2, ""};
       }},
      {"certificate.candidate_count",
       [](Plan& plan) {
         plan.certificate = Certificate{2, 3, 0, ""};
       }},
      {"certificate.restriction_cost",
       [](Plan& plan) {
         plan.certificate = Certificate{2, 2, 0, "", std::numeric_limits<double>::quiet_NaN()};
       }},
      {"validation.fused_us", [](Plan& plan) { plan.validation = {0, 1, 0, 0, 0, 3}; }},
      {"validation.fused_us",
       [](Plan& plan) { plan.validation = {std::numeric_limits<double>::quiet_NaN(), 1, 0, 0, 0, 3}; }},
      {"validation.serial_us", [](Plan& plan) { plan.validation = {1, -1, 0, 0, 0, 3}; }},
      {"validation.benefit_low", [](Plan& plan) { plan.validation = {1, 1, 0.1, 0.3, 0.2, 3}; }},
      {"validation.benefit", [](Plan& plan) { plan.validation = {1, 1, 0.1, 0.2, 0.3, 3}; }},
      {"validation.benefit", [](Plan& plan) { plan.validation = {1, 1, 7, 6, 8, 3}; }},
      {"validation.benefit", [](Plan& plan) { plan.validation = {1, 1, -1e300, -1e300, 0, 3}; }},
      {"validation.benefit_low", [](Plan& plan) { plan.validation = {1, 1, 0.1, -1e300, 0.3, 3}; }},
      {"validation.benefit_high", [](Plan& plan) { plan.validation = {1, 1, 0.1, 0, 8, 3}; }},
      {"validation.pair_count", [](Plan& plan) { plan.validation = {1, 1, 0, 0, 0, 0}; }},
      {"validation.measured_at",
       [](Plan& plan) { plan.validation = {1, 1, 0, 0, 0, 3, std::nullopt, "2999-13-45 yesterday"}; }},
      {"validation.spread.serial_low_us",
       [](Plan& plan) {
         plan.validation = {1, 1, 0, 0, 0, 3, MeasuredSpread{1, 1, 2, 1, 1}};
       }},
      {"timeline.first", [](Plan& plan) { plan.timeline.first.clear(); }},
      {"timeline.second",
       [](Plan& plan) {
         plan.timeline.second.push_back({30, 30});
       }},
      {"timeline.second[0]",
       [](Plan& plan) { // the block starts on the second lane before it has ended on the first
         plan.timeline.second[0].start_us = 5;
       }},
      {"timeline.second[0]",
       [](Plan& plan) { // the second lane's first slice comes before the first lane's
         plan.variant.fields["slices"] = "4";
         plan.timeline.first[0].start_us = 6, plan.timeline.second[0].start_us = 5;
       }},
      {"timeline.second[0].start_us", [](Plan& plan) { plan.timeline.second[0].start_us = -1; }}};
  for (const auto& [field, change] : changes) {
    Plan plan = serial_plan();
    change(plan);
    const auto verdict = plan.validate();
    ASSERT_FALSE(verdict.ok()) << field;
    EXPECT_EQ(verdict.error().code, ErrorCode::InvalidSpec);
    EXPECT_EQ(verdict.error().field, field) << verdict.error().text();
  }
}

TEST(Plan, WhatMayDifferIsLeftAlone) {
  const std::pair<const char*, void (*)(Plan&)> changes[]{
      {"the digits of a document", [](Plan& plan) { plan.serial_us *= 1 + 1e-12; }},
      {"an efficiency above 100 %, of another variant",
       [](Plan& plan) {
         plan.makespan = {15, 14, 16, Provenance::Measured, ""};
       }},
      {"a makespan that runs have taught", [](Plan& plan) { plan.timeline.makespan_us = 31; }},
      {"slices that overlap uncut",
       [](Plan& plan) {
         plan.variant.fields["slices"] = "2";
         plan.schedule = Schedule::Pipelined;
         plan.timeline.second[0].start_us = 5;
       }},
      {"tiles that are stored where they are summed",
       [](Plan& plan) {
         plan.variant.name = "tile_store";
         plan.timeline.second[0].start_us = 5;
       }},
      {"an interval of runs that vary much", [](Plan& plan) { plan.validation = {1, 1, 0.1, -0.8, 1.2, 3}; }},
      {"what a reader measured without a date", [](Plan& plan) { plan.validation = {1, 1, 0, 0, 0, 1}; }}};
  for (const auto& [what, change] : changes) {
    Plan plan = serial_plan();
    change(plan);
    EXPECT_TRUE(plan.validate()) << what << ": " << plan.validate().error().text();
  }
}

TEST(Validation, OfRunsHasTheIntervalOfTheirError) {
  // fused / serial is 0.8; 1.96 errors of 5 % are 9.8 % of that: 0.8 * 0.902 to 0.8 * 1.098.
  const Validation known = validation_of({.fused_us = 80, .serial_us = 100, .run_count = 7, .relative_error = 0.05});
  EXPECT_NEAR(known.benefit, 0.2, 1e-12);
  EXPECT_NEAR(known.benefit_low, 0.1216, 1e-12);
  EXPECT_NEAR(known.benefit_high, 0.2784, 1e-12);
  EXPECT_EQ(known.pair_count, 7);
  // An unknown error counts as 1 %: 1 - 0.8 * 1.0196. No error makes a time negative.
  EXPECT_NEAR(validation_of({.fused_us = 80, .serial_us = 100}).benefit_low, 0.18432, 1e-12);
  EXPECT_EQ(validation_of({.fused_us = 80, .serial_us = 100, .relative_error = 0.6}).benefit_high, 1);
}

} // namespace
} // namespace mc2::planner::plan_test
