#include "mc2/planner/cost_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "mc2/planner/planner.hpp"
#include "mc2/planner/speed_spread.hpp"
#include "support/models.hpp"

namespace mc2::planner::cost_model_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

/// 2 ranks, each with a shard of 64 rows of 512 bytes: compute takes 10 + 64 = 74 us, communication 20 + 0.5 us/KiB *
/// 64 KiB = 52 us.
CostModel example_model() {
  return testing::model_of({OpKind::MatmulReduceScatter, 128, 128, 32, DType::F32, 2},
                           testing::affine(CurveAxis::Rows, 10, 1), testing::affine(CurveAxis::Bytes, 20, 0.5 / 1024),
                           1.25, 1.5);
}

TEST(Scaled, MultipliesEveryTimeOfAnAffineCurve) {
  const CostCurve curve = testing::affine(CurveAxis::Rows, 10, 0.5);
  EXPECT_DOUBLE_EQ(scaled(curve, 3).time_us(100), 3 * (10 + 0.5 * 100));
  EXPECT_DOUBLE_EQ(scaled(curve, 0.25).time_us(1), 0.25 * 10.5);
}

TEST(Scaled, MultipliesBothPiecesOfAPiecewiseCurve) {
  const CostCurve curve = testing::published_all_reduce();
  for (const double mib : {0.5, 6.0, 8.0, 8.5, 64.0})
    EXPECT_DOUBLE_EQ(scaled(curve, 1.7).time_us(mib * 1048576), 1.7 * curve.time_us(mib * 1048576)) << mib;
}

TEST(Scaled, KeepsSizesRangeAndInterval) {
  CostCurve curve = testing::published_all_reduce();
  curve.relative_interval = 0.07;
  const CostCurve twice = scaled(curve, 2);
  EXPECT_EQ(std::get<PiecewiseCurve>(twice.shape).knot_x, std::get<PiecewiseCurve>(curve.shape).knot_x);
  EXPECT_EQ(std::get<PiecewiseCurve>(twice.shape).scale_x, std::get<PiecewiseCurve>(curve.shape).scale_x);
  EXPECT_EQ(twice.valid_min_x, curve.valid_min_x);
  EXPECT_EQ(twice.valid_max_x, curve.valid_max_x);
  EXPECT_EQ(twice.relative_interval, 0.07);
  EXPECT_EQ(scaled(twice, 0.5), curve); // halving and doubling are exact
}

TEST(AtSpeed, TakesTheTimesOfTheUncutParts) {
  CostModel model = example_model();
  model.variants[0].compute.curve.relative_interval = 0.3;
  model.anchored_interval = 0.02; // widens plans, in place of the curve's interval
  const auto at = [&](double compute_us) {
    const std::array times{TimedLanes{model.variants[0].variant.text(), compute_us, 30}};
    return at_speed(model, model.op, times);
  };
  const Plan plan = predict_cut(model.op, at(100).value(), model.variants[0].variant, {{64}}).value();
  EXPECT_DOUBLE_EQ(plan.makespan.us, 130);
  EXPECT_DOUBLE_EQ(plan.makespan.low_us, 130);
  EXPECT_DOUBLE_EQ(plan.makespan.high_us, 130);
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_EQ(at(bad).error().field, "uncut times");
  for (const double bad : {0.0, 1001.0, 1e300}) {
    model.anchored_interval = bad;
    EXPECT_EQ(model.validate().error().field, "anchored_interval") << bad;
  }
}

TEST(Anchored, ScalesTheLocalPartWithTheRest) {
  // The own shard takes 50 us and those of the others 128 us. Where these 178 us were measured as 356 us, both parts
  // take twice as long.
  const CostModel model = testing::all_gather_model();
  const CostModel now = anchored(model, model.op, 356, 256);
  EXPECT_DOUBLE_EQ(now.variants[0].local_us(now.op), 100);
  EXPECT_DOUBLE_EQ(now.variants[0].compute.curve.time_us(256), 256);
}

TEST(CostModel, EveryRunTakesTheStartOfTheLanesThatRun) {
  const CostModel blocks = example_model(); // 74 and 52 us
  CostModel model = blocks;
  model.variants[0].compute.start_us = 30;
  model.variants[0].communication.start_us = 8;
  const Variant& variant = model.variants[0].variant;
  EXPECT_DOUBLE_EQ(model.variants[0].uncut_compute_us(model.op), 104);
  EXPECT_DOUBLE_EQ(model.variants[0].uncut_communication_us(model.op), 60);
  const Plan uncut = predict_cut(model.op, model, variant, {{64}}).value();
  EXPECT_DOUBLE_EQ(uncut.compute_us, 104);
  EXPECT_DOUBLE_EQ(uncut.communication_us, 60);
  EXPECT_DOUBLE_EQ(uncut.makespan.us, 164);
  for (const Cut& cut : {Cut{{16, 48}}, Cut{{32, 16, 16}}}) {
    const double blocks_us = predict_cut(model.op, blocks, variant, cut).value().makespan.us;
    const Plan plan = predict_cut(model.op, model, variant, cut).value();
    EXPECT_DOUBLE_EQ(plan.makespan.us, blocks_us + 38) << cut.text();
    const auto& [first, second, makespan_us, overlap_us] = plan.timeline;
    EXPECT_EQ(first.front().start_us, 0);
    EXPECT_DOUBLE_EQ(first.front().end_us, 30 + 10 + static_cast<double>(cut.block_rows.front()));
    EXPECT_DOUBLE_EQ(second.front().start_us, first.front().end_us);
    EXPECT_DOUBLE_EQ(second.back().end_us, makespan_us);
    EXPECT_TRUE(plan.validate());
  }
  // A timeline with an own shard, which is on the second lane alone, has room for both starts, too.
  CostModel gather = testing::all_gather_model();
  gather.variants[0].compute.start_us = 8;
  gather.variants[0].communication.start_us = 30;
  const Plan gathered = predict_cut(gather.op, gather, {{128, 128}}).value();
  EXPECT_TRUE(gathered.validate()) << gathered.validate().error().text();
  EXPECT_DOUBLE_EQ(gathered.timeline.second.back().end_us, gathered.timeline.makespan_us);
  // A start that is off by 50 and 75 %, i.e. by 15 and 6 us, widens the interval of every run alike.
  model.variants[0].compute.start_interval = 0.5;
  model.variants[0].communication.start_interval = 0.75;
  const Plan unsure = predict_cut(model.op, model, variant, {{64}}).value();
  EXPECT_NEAR(std::pow(unsure.makespan.high_us - unsure.makespan.us, 2),
              std::pow(uncut.makespan.high_us - uncut.makespan.us, 2) + 15 * 15 + 6 * 6, 1e-9);
  // A machine that is twice as slow starts its lanes twice as slowly.
  const CostModel now = anchored(model, model.op, 208, 60);
  EXPECT_DOUBLE_EQ(now.variants[0].compute.start_us, 60);
  EXPECT_DOUBLE_EQ(now.variants[0].compute.curve.time_us(64), 148);
  EXPECT_DOUBLE_EQ(now.variants[0].communication.start_us, 8);
}

TEST(Anchored, GivesTheUncutPartsTheirTimes) {
  const CostModel model = example_model();
  const CostModel now = anchored(model, model.op, 100, 30);
  const Plan uncut = predict_cut(model.op, now, now.variants[0].variant, {{64}}).value();
  EXPECT_DOUBLE_EQ(uncut.compute_us, 100);
  EXPECT_DOUBLE_EQ(uncut.communication_us, 30);
  EXPECT_DOUBLE_EQ(uncut.serial_us, 130);
}

TEST(CostModel, ALaneOfWhichTheOtherDoesAPartTakesLessInACutAndAsMuchAlone) {
  CostModel model = example_model();
  model.variants[0].compute.slowdown = model.variants[0].communication.slowdown = 1;
  model.variants[0].communication.fixed_us = 0;
  CostModel part = model;
  part.variants[0].communication.slowdown = 0.5;
  const Variant& variant = model.variants[0].variant;
  const Cut cut{{16, 48}};
  const LaneTimes whole = predict_lane_times(model.op, model, variant, cut).value();
  const LaneTimes less = predict_lane_times(model.op, part, variant, cut).value();
  EXPECT_DOUBLE_EQ(less.communication_us, whole.communication_us / 2);
  EXPECT_DOUBLE_EQ(less.compute_us, whole.compute_us);
  const Plan plan = predict_cut(model.op, part, variant, cut).value();
  EXPECT_DOUBLE_EQ(plan.serial_us, predict_cut(model.op, model, variant, cut).value().serial_us);
  EXPECT_EQ(plan.slowdown.second, 1);
  EXPECT_TRUE(plan.validate());
  // An uncut plan is as slow as the serial plan, because it overlaps nothing.
  const Plan uncut = predict_cut(model.op, part, variant, {{64}}).value();
  EXPECT_DOUBLE_EQ(uncut.makespan.us, uncut.serial_us);
  EXPECT_DOUBLE_EQ(uncut.makespan.us, serial_plan(model.op, part, variant).value().makespan.us);
  // A given contention replaces only the contention: a factor below 1 stays, as it is what a cut saves.
  PlanOptions assuming;
  assuming.contention = LaneContention{1.2, 1.2};
  EXPECT_EQ(assume(part, assuming).model.variants[0].communication.slowdown, 0.5);
}

TEST(CostModel, RowsOfAnOperatorThatIsCutAlongNAreStale) {
  const OpSpec few_rows = testing::all_reduce_op(16, 256, 32, DType::F32, 2);
  CostModel model =
      testing::model_of(few_rows, testing::affine(CurveAxis::Columns, 10, 1), testing::affine(CurveAxis::Bytes, 20, 1));
  EXPECT_TRUE(model.validate());
  model.variants[0].compute.curve.axis = CurveAxis::Rows;
  EXPECT_EQ(model.validate().error().code, ErrorCode::Stale);
  model.op.m = 65;
  EXPECT_TRUE(model.validate());
  model.variants[0].compute.curve.axis = CurveAxis::Columns;
  EXPECT_EQ(model.validate().error().code, ErrorCode::InvalidSpec);
}

TEST(Anchored, ScalesEveryBlockOfALaneAlike) {
  const CostModel model = example_model();
  const CostModel now = anchored(model, model.op, 2 * 74, 3 * 52);
  const VariantCost& cost = now.variants[0];
  EXPECT_DOUBLE_EQ(cost.compute.curve.time_us(16), 2 * (10 + 16));
  EXPECT_DOUBLE_EQ(cost.communication.curve.time_us(16 * 1024), 3 * (20 + 0.5 * 16));
}

TEST(Anchored, TakesTheTimesAsThoseOfTheOperatorItIsGiven) {
  // 32 rows take 10 + 32 = 42 us and 20 + 16 = 36 us. Where they took twice that, 64 rows take 2 * 74 us and 2 * 52 us.
  const CostModel model = example_model();
  OpSpec half = model.op;
  half.m = 64;
  const CostModel now = anchored(model, half, 2 * 42, 2 * 36);
  EXPECT_DOUBLE_EQ(now.variants[0].compute.curve.time_us(64), 2 * 74);
  EXPECT_DOUBLE_EQ(now.variants[0].communication.curve.time_us(64 * 1024), 2 * 52);
  EXPECT_EQ(now.op, model.op);
}

TEST(Anchored, AnchorsEveryVariantAndLeavesWhatIsNotSpeed) {
  CostModel model = example_model();
  model.variants[0].communication.fixed_us = 7;
  model.variants.push_back(model.variants[0]);
  model.variants[1].variant.name = "slow";
  model.variants[1].compute.curve = testing::affine(CurveAxis::Rows, 0, 5);
  const CostModel now = anchored(model, model.op, 100, 30);
  for (const VariantCost& cost : now.variants) {
    EXPECT_DOUBLE_EQ(cost.compute.curve.time_us(64), 100);
    EXPECT_DOUBLE_EQ(cost.communication.curve.time_us(64 * 1024), 30);
    EXPECT_EQ(cost.compute.slowdown, 1.25);
    EXPECT_EQ(cost.communication.slowdown, 1.5);
    EXPECT_EQ(cost.communication.fixed_us, 7);
  }
  EXPECT_EQ(now.fingerprint, model.fingerprint);
}

TEST(Anchored, ChangesNothingWhenTheSpeedIsTheProfiledOne) {
  const CostModel model = example_model();
  EXPECT_EQ(anchored(model, model.op, 74, 52), model);
}

TEST(CostModel, RefusesWhatNoLaneCanBeNamingTheField) {
  const auto field_of = [](const CostModel& model) { return model.validate().error().field; };
  ASSERT_TRUE(example_model().validate());
  CostModel model = example_model();
  model.variants.clear();
  EXPECT_EQ(field_of(model), "variants");
  model = example_model();
  model.variants[0].variant.name.clear();
  EXPECT_EQ(field_of(model), "variants[0].variant.name");
  model = example_model();
  model.variants[0].compute.slowdown = 0.01;
  EXPECT_EQ(field_of(model), "variants[0].compute.slowdown");
  model = example_model();
  model.variants[0].communication.fixed_us = -1;
  EXPECT_EQ(field_of(model), "variants[0].communication.fixed_us");
  model = example_model();
  model.variants[0].communication.slowdown = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(field_of(model), "variants[0].communication.slowdown");
  model = example_model();
  std::swap(model.variants[0].compute.curve, model.variants[0].communication.curve);
  EXPECT_EQ(field_of(model), "variants[0].compute.curve.axis");
}

TEST(CostModel, RefusesTimesThatNoPlanMayHave) {
  const std::pair<const char*, void (*)(CostModel&)> changes[]{
      {"variants[0].compute.fixed_us", [](CostModel& model) { model.variants[0].compute.fixed_us = 2e15; }},
      {"variants[0].communication.slowdown", [](CostModel& model) { model.variants[0].communication.slowdown = 2e15; }},
      {"variants[0].run_us", [](CostModel& model) { model.variants[0].run_us = 1e300; }},
      {"variants[0].compute.start_us", [](CostModel& model) { model.variants[0].compute.start_us = -1; }},
      {"variants[0].communication.start_interval",
       [](CostModel& model) { model.variants[0].communication.start_interval = 1e300; }},
      {"serial.compute_us",
       [](CostModel& model) {
         model.serial = {{"direct", {}}, 1e300};
       }},
      {"variants[0].compute.curve.relative_interval",
       [](CostModel& model) { model.variants[0].compute.curve.relative_interval = 1e155; }},
      {"variants[0].compute.curve.quality.cross_validated_rms",
       [](CostModel& model) { model.variants[0].compute.curve.quality.cross_validated_rms = -1e308; }},
      // Compute takes 1e17 us whatever the size; communication takes 2e10 us for each of 64 * 1 KiB = 65536 B.
      {"variants[0].compute.curve",
       [](CostModel& model) { model.variants[0].compute.curve = testing::affine(CurveAxis::Rows, 1e17, 0); }},
      {"variants[0].communication.curve",
       [](CostModel& model) { model.variants[0].communication.curve = testing::affine(CurveAxis::Bytes, 0, 2e10); }},
      {"variants[1].variant", [](CostModel& model) { model.variants.push_back(model.variants[0]); }}};
  for (const auto& [field, change] : changes) {
    CostModel model = example_model();
    change(model);
    const auto verdict = model.validate();
    ASSERT_FALSE(verdict.ok()) << field;
    EXPECT_EQ(verdict.error().code, ErrorCode::InvalidSpec);
    EXPECT_EQ(verdict.error().field, field) << verdict.error().text();
  }
}

TEST(MakePlan, RefusesAPlanThatCouldNotBeReadAgain) {
  // The model's own 64 rows take 1e15 us, which is legal; the 256 rows that are asked for take four times as long.
  CostModel model = example_model();
  model.variants[0].compute.curve = testing::affine(CurveAxis::Rows, 0, 1e15 / 64);
  ASSERT_TRUE(model.validate());
  OpSpec longer = model.op;
  longer.m = 512;
  for (const auto& refused :
       {make_plan(longer, model, {}), predict_cut(longer, model, {{128, 128}}),
        serial_plan(longer, model, model.variants[0].variant), make_plan(longer, model, {.block_overhead_us = 1})}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::OutOfRange);
    EXPECT_EQ(refused.error().field, "model");
    EXPECT_THAT(refused.error().message, HasSubstr("us; legal: 0 to 1e15"));
  }
}

TEST(CostModel, RefusesSlicesThatCannotBeRead) {
  CostModel model = example_model();
  for (const char* text : {"0", "-1", "1025", "4x", "", "1.5", "1+", "+1", "1++2", "1+0", "1+1024", "1+99999999999"}) {
    model.variants[0].variant.fields["slices"] = text;
    EXPECT_EQ(model.validate().error().field, "variants[0].variant.slices") << text;
    EXPECT_EQ(slices_of(model.variants[0].variant).count(), 1);
  }
  for (const auto& [text, count] : {std::pair{"1024", 1024}, std::pair{"1+2+4", 3}, std::pair{"1+1023", 2}}) {
    model.variants[0].variant.fields["slices"] = text;
    EXPECT_TRUE(model.validate()) << text;
    EXPECT_EQ(slices_of(model.variants[0].variant).count(), count);
  }
}

TEST(RestrictedTo, FindsAPublishedVariantByItsNameWhereThereIsOneOfThatName) {
  CostModel model = example_model();
  const Variant ring{"ring", {{"topology", "invented"}}}, name{"ring", {}};
  model.variants.front().variant = ring;
  EXPECT_THAT(restricted_to(name, model).error().message, EndsWith("mc2 profile --variant measures it"));
  model.variants.front().communication.curve.is_analytic = true;
  EXPECT_EQ(restricted_to(name, model).value().variants.front().variant, ring);
  EXPECT_THAT(restricted_to({"tree", {}}, model).error().message, EndsWith("only of: ring(topology=invented)"));
  model.variants.push_back(model.variants.front());
  model.variants.back().variant.fields["topology"] = "another";
  EXPECT_EQ(restricted_to(name, model).error().code, ErrorCode::NotFound);
  EXPECT_EQ(restricted_to(ring, model).value().variants.size(), 1);
}

TEST(Variant, TextNamesTheSettingsAndIsReadBack) {
  const Variant plain{"direct", {}};
  const Variant set{"nccl", {{"sm_count", "116"}, {"ctas", "8"}}};
  EXPECT_EQ(plain.text(), "direct");
  EXPECT_EQ(set.text(), "nccl(ctas=8,sm_count=116)");
  EXPECT_EQ(parse_variant(plain.text()), plain);
  EXPECT_EQ(parse_variant(set.text()), set);
}

TEST(Variant, TextOfAnotherFormIsANameWithoutSettings) {
  for (const char* text :
       {"", "(", "a(", "a()", "a(b", "a(b)", "a(b=1", "a(b=1)c", "a(b=1,)", "a(b=1,b=2)", "a(c=1,b=2)"}) {
    EXPECT_EQ(parse_variant(text), (Variant{text, {}})) << text;
  }
}

} // namespace
} // namespace mc2::planner::cost_model_test
