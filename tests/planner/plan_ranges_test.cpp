#include "mc2/planner/plan_ranges.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "support/models.hpp"
#include "support/random_slices.hpp"

namespace mc2::planner::plan_ranges_test {
namespace {

using ::testing::HasSubstr;

PlanRanges ranges_of(const CostModel& model, std::int64_t first_m, std::int64_t last_m,
                     const PlanOptions& options = {}) {
  return plan_ranges(model.op, first_m, last_m, model, options).value();
}

OpSpec with_m(OpSpec op, std::int64_t m) {
  op.m = m;
  return op;
}

double predicted_us(const CostModel& model, const Plan& plan) {
  return plan.schedule == Schedule::Serial ? serial_plan(plan.op, model, plan.variant).value().makespan.us
                                           : predict_cut(plan.op, model, plan.variant, plan.cut).value().makespan.us;
}

/// What is wrong with the range's plan at `m`, compared with the plan made for this m alone; empty if nothing is.
std::string fault_at(const PlanRanges& ranges, const CostModel& model, const PlanOptions& options, std::int64_t m) {
  const auto found = plan_at(ranges, m);
  if (!found) return found.error().text();
  const Plan own = make_plan(with_m(model.op, m), model, options).value();
  const double us = predicted_us(model, found.value());
  const std::string texts = "m=" + std::to_string(m) + ": " + found.value().cut.text() + " against " + own.cut.text();
  if (found.value().is_cut() && !own.is_cut()) return texts + ": is cut";
  if (us > own.makespan.us * (1 + kRangeTolerance) * (1 + 1e-9)) return texts + ": slower than the tolerance";
  if (us > own.makespan.us * (1 + ranges.find(m)->loss) * (1 + 1e-9)) return texts + ": slower than is said";
  if (!found.value().is_cut()) return {};
  const auto& rows = found.value().cut.block_rows;
  if (*std::ranges::min_element(rows) < options.min_block_rows) return texts + ": too short a block";
  if (std::ssize(rows) > options.max_block_count) return texts + ": too many blocks";
  return {};
}

void expect_as_good_as_own_plans(const CostModel& model, std::int64_t first_m, std::int64_t last_m,
                                 const PlanOptions& options = {}) {
  const PlanRanges ranges = ranges_of(model, first_m, last_m, options);
  ASSERT_TRUE(ranges.validate());
  for (std::int64_t m = first_m; m <= last_m; ++m) {
    if (m % m_step(model.op) != 0) continue;
    ASSERT_EQ(fault_at(ranges, model, options, m), "");
  }
}

TEST(CutRule, GivesTheRestToTheOddBlock) {
  const CutRule last{{"direct", {}}, Schedule::Pipelined, 512, 128, false};
  EXPECT_EQ(last.split(1024).cut().block_rows, (std::vector<std::int64_t>{512, 512}));
  EXPECT_EQ(last.split(1151).cut().block_rows, (std::vector<std::int64_t>{512, 639}));
  EXPECT_EQ(last.split(1152).cut().block_rows, (std::vector<std::int64_t>{512, 512, 128}));
  EXPECT_EQ(last.text(), "512 each, then 128 to 639");
  CutRule first = last;
  first.is_odd_first = true;
  EXPECT_EQ(first.split(1153).cut().block_rows, (std::vector<std::int64_t>{129, 512, 512}));
  EXPECT_EQ(first.text(), "128 to 639, then 512 each");
  EXPECT_EQ(first.split(639).cut().block_rows, std::vector<std::int64_t>{639}); // too short for two blocks
  const CutRule uncut{{"direct", {}}, Schedule::Serial};
  EXPECT_EQ(uncut.split(77).cut().block_rows, std::vector<std::int64_t>{77});
  EXPECT_EQ(uncut.text(), "do not cut");
}

TEST(PlanRanges, AreAsGoodAsPlanningEveryM) {
  expect_as_good_as_own_plans(testing::worked_example_model(), 65, 4096);
  PlanOptions fine;
  fine.alignment = 16;
  fine.min_block_rows = 32;
  fine.max_block_count = 8;
  expect_as_good_as_own_plans(testing::worked_example_model(), 65, 1500, fine);
  PlanOptions careful;
  careful.objective_quantile = 0.9;
  expect_as_good_as_own_plans(testing::worked_example_model(), 900, 1100, careful);
}

TEST(PlanRanges, HaveTheMThatRanksWithShardsCanHave) {
  // Only every fourth m is legal on 4 ranks. The local part comes first wherever the exchange hides it.
  expect_as_good_as_own_plans(testing::all_gather_model(), 1, 4000);
  const PlanRanges ranges = ranges_of(testing::all_gather_model(), 1, 4003);
  EXPECT_EQ(ranges.planned_count, 1000);
  EXPECT_EQ(ranges.op.m, 4000);
  EXPECT_EQ(ranges.ranges.front().first_m, 4);
  EXPECT_EQ(ranges.find(5), nullptr);
  EXPECT_EQ(plan_at(ranges, 5).error().field, "m");
}

TEST(PlanRanges, AreFewAndTellWhatTheyGain) {
  const CostModel model = testing::worked_example_model();
  const PlanRanges ranges = ranges_of(model, 65, 16384);
  EXPECT_LE(ranges.ranges.size(), 60U);
  EXPECT_LE(ranges.loss(), kRangeTolerance);
  EXPECT_FALSE(ranges.ranges.front().rule.is_cut()); // a block has at least 128 rows
  EXPECT_EQ(ranges.ranges.front().last_m, 255);
  for (const PlanRange& range : ranges.ranges)
    for (const std::int64_t m : {range.first_m, range.last_m}) {
      const Plan plan = plan_at(ranges, m).value();
      EXPECT_THAT(plan.reason, ::testing::StartsWith("by the rule for m=" + std::to_string(range.first_m) + " to "));
      const double benefit = 1 - predicted_us(model, plan) / make_plan(plan.op, model, {}).value().serial_us;
      EXPECT_GE(benefit, range.least_benefit - 1e-9) << m;
      EXPECT_LE(benefit, range.most_benefit + 1e-9) << m;
      EXPECT_LE(range.benefit_interval->low, range.least_benefit + 1e-9);
      EXPECT_GE(range.benefit_interval->high, range.most_benefit - 1e-9);
    }
}

TEST(PlanRanges, AnOperatorWhoseGainIsNotSignificantStaysWhole) {
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.curve.relative_interval = model.variants[0].communication.curve.relative_interval = 0.9;
  const PlanRanges ranges = ranges_of(model, 1000, 2000);
  ASSERT_EQ(ranges.ranges.size(), 1U);
  EXPECT_EQ(ranges.ranges[0].rule.text(), "do not cut");
  EXPECT_EQ(plan_at(ranges, 1500).value().schedule, Schedule::Serial);
}

TEST(PlanRanges, LeaveOutMThatAreCutByColumns) {
  const PlanRanges ranges = ranges_of(testing::worked_example_model(), 1, 128);
  ASSERT_EQ(ranges.gaps.size(), 1U);
  EXPECT_EQ(ranges.gaps[0].first_m, 1);
  EXPECT_EQ(ranges.gaps[0].last_m, 64);
  EXPECT_THAT(ranges.gaps[0].reason, HasSubstr("a model of the same m"));
  EXPECT_EQ(ranges.find(64), nullptr);
  EXPECT_NE(ranges.find(65), nullptr);
  EXPECT_EQ(plan_at(ranges, 64).error().code, ErrorCode::NotFound);
  EXPECT_TRUE(ranges_of(testing::worked_example_model(), 1, 64).ranges.empty());
}

TEST(PlanRanges, FindNothingOutside) {
  const PlanRanges ranges = ranges_of(testing::worked_example_model(), 1000, 2000);
  for (const std::int64_t m : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{999}, std::int64_t{2001}, kMaxSize})
    EXPECT_EQ(ranges.find(m), nullptr) << m;
  EXPECT_EQ(ranges.find(1000), &ranges.ranges.front());
  EXPECT_EQ(ranges.find(2000), &ranges.ranges.back());
}

TEST(PlanRanges, TellWhatCannotBeAsked) {
  const CostModel model = testing::worked_example_model();
  const auto error = [&](std::int64_t first, std::int64_t last, const PlanOptions& options = {}) {
    return plan_ranges(model.op, first, last, model, options).error().text();
  };
  EXPECT_THAT(error(0, 10), HasSubstr("m: range is 0 to 10; legal: a first and a last m of 1 to 65536"));
  EXPECT_THAT(error(10, 9), HasSubstr("the first not above the last"));
  EXPECT_THAT(error(1, kMaxRangeAxis + 1), HasSubstr("65536"));
  PlanOptions options;
  options.strategy = "formula";
  EXPECT_THAT(error(100, 200, options), HasSubstr("ranges of m are planned by strategy search"));
  const CostModel sharded = testing::all_gather_model();
  EXPECT_THAT(plan_ranges(sharded.op, 5, 7, sharded, {}).error().text(), HasSubstr("multiple of the 4 ranks"));
  OpSpec other = model.op;
  other.world_size = 0;
  EXPECT_EQ(plan_ranges(other, 100, 200, model, {}).error().field, "ranks");
  other = model.op;
  other.n = 4096;
  EXPECT_EQ(plan_ranges(other, 100, 200, model, {}).error().code, ErrorCode::OutOfRange);
}

TEST(PlanRanges, TellEachMOnceItIsPlanned) {
  const CostModel model = testing::worked_example_model();
  std::vector<std::int64_t> told;
  const auto of_all = [&](std::int64_t) { return ModelUntil{1027, model}; };
  ASSERT_TRUE(plan_ranges(model.op, 1024, 1027, of_all, {}, nullptr, {}, [&](std::int64_t m) { told.push_back(m); }));
  EXPECT_EQ(told, (std::vector<std::int64_t>{1024, 1025, 1026, 1027}));
}

TEST(PlanRanges, ALabelWidensTheIntervals) {
  const CostModel model = testing::worked_example_model();
  const auto labelled = plan_ranges(model.op, 4000, 4096, model, {}, [](Plan plan) {
    plan.benefit_interval = BenefitInterval{-1, 1};
    plan.makespan.provenance = Provenance::Extrapolated;
    return plan;
  });
  EXPECT_EQ(labelled.value().ranges.front().benefit_interval, (BenefitInterval{-1, 1}));
  EXPECT_EQ(labelled.value().ranges.front().provenance, Provenance::Extrapolated);
}

TEST(PlanRanges, AnExtrapolatedSerialMakesTheGainExtrapolated) {
  CostModel model = testing::worked_example_model();
  auto& cost = model.variants.front();
  for (CostCurve* curve : {&cost.compute.curve, &cost.communication.curve}) {
    curve->is_analytic = false;
    curve->valid_min_x = 1;
    curve->valid_max_x = 1e12;
  }
  cost.compute.curve.valid_max_x = 2048; // longer than the blocks, shorter than serial
  const Plan plan = make_plan(model.op, model, {}).value();
  ASSERT_TRUE(plan.is_cut());
  ASSERT_LE(plan.makespan.provenance, Provenance::Interpolated) << plan.makespan.reason;
  EXPECT_THAT(plan.makespan.reason, HasSubstr("serial, and so the benefit, is extrapolated: 4096 rows"));
  EXPECT_EQ(ranges_of(model, 4096, 4096).provenance(), Provenance::Extrapolated);
}

TEST(PlanRanges, APlanIsTheRangeOfItsOwnM) {
  const CostModel model = testing::worked_example_model();
  for (const std::int64_t m : {200, 300, 1024, 4000}) {
    const Plan plan = make_plan(with_m(model.op, m), model, {}).value();
    const PlanRange range = range_of(plan);
    EXPECT_EQ(range.rule.split(m).cut(), plan.cut) << plan.cut.text();
    EXPECT_EQ(range.rule.schedule, plan.schedule);
  }
}

TEST(PlanRanges, IllegalOnesAreRefused) {
  const PlanRanges good = ranges_of(testing::worked_example_model(), 1000, 3000);
  ASSERT_GE(good.ranges.size(), 2U);
  PlanRanges bad = good;
  std::swap(bad.ranges[0], bad.ranges[1]);
  EXPECT_THAT(bad.validate().error().text(), HasSubstr("ranges[1]"));
  bad = good;
  bad.ranges[0].rule.min_odd_rows = 0;
  EXPECT_THAT(bad.validate().error().text(), HasSubstr("ranges[0].rule"));
  bad = good;
  bad.ranges[0].rule.schedule = Schedule::Serial;
  EXPECT_THAT(bad.validate().error().text(), HasSubstr("ranges[0].schedule"));
  bad = good;
  bad.ranges[0].rule.min_odd_rows = 1001; // on an axis of 1000
  EXPECT_THAT(bad.validate().error().text(),
              HasSubstr("ranges[0].rule.min_odd_length: is 1001; must be at most the 1000 rows"));
  bad = good;
  bad.ranges[0].loss = -1e-9;
  EXPECT_THAT(bad.validate().error().text(), HasSubstr("ranges[0].loss"));
  bad = good;
  --bad.planned_count;
  EXPECT_THAT(bad.validate().error().text(), HasSubstr("planned_count: is 2000; the ranges have 2001 m"));
  bad = good;
  bad.ranges.pop_back();
  EXPECT_THAT(bad.validate().error().text(), HasSubstr("each is in a range or in a gap"));
  bad = good;
  bad.first_m = 3001;
  EXPECT_EQ(bad.validate().error().field, "m");
}

CostModel random_model() {
  const auto number = [](int low, int high, double scale) { return *rc::gen::inRange(low, high) * scale; };
  const std::array bases{testing::worked_example_model(), testing::all_gather_model()};
  CostModel model = bases[*rc::gen::inRange<std::size_t>(0, bases.size())];
  const VariantCost base = model.variants.front();
  model.variants.clear();
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    VariantCost one = base;
    one.variant.name = "variant" + std::to_string(i);
    one.compute.curve = testing::affine(CurveAxis::Rows, number(0, 200, 1), number(1, 100, 0.01));
    one.communication.curve = testing::affine(CurveAxis::Bytes, number(0, 100, 1), number(1, 100, 1e-5));
    one.compute.curve.relative_interval = one.communication.curve.relative_interval = number(0, 20, 0.01);
    one.compute.slowdown = 1 + number(0, 150, 0.01);
    one.communication.slowdown = 1 + number(0, 150, 0.01);
    one.compute.fixed_us = number(0, 20, 1);
    one.communication.fixed_us = number(0, 20, 1);
    one.run_us = number(0, 20, 1);
    one.compute.start_us = number(0, 20, 1);
    one.communication.start_us = number(0, 20, 1);
    if (*rc::gen::arbitrary<bool>()) one.variant.fields["slices"] = testing::random_slices();
    model.variants.push_back(one);
  }
  return model;
}

RC_GTEST_PROP(PlanRanges, AreAsGoodAsPlanningEveryMOfAnyModel, ()) {
  const CostModel model = random_model();
  PlanOptions options;
  options.alignment = *rc::gen::element(1, 16, 100);
  options.min_block_rows = *rc::gen::element(1, 20, 128);
  options.max_block_count = *rc::gen::inRange(1, 20);
  options.runner_up_count = 0;
  const std::int64_t first_m = *rc::gen::inRange(65, 1500);
  const std::int64_t last_m = first_m + 3 + *rc::gen::inRange(0, 200);
  const PlanRanges ranges = ranges_of(model, first_m, last_m, options);
  for (std::int64_t m = first_m; m <= last_m; ++m)
    if (m % m_step(model.op) == 0) RC_ASSERT(fault_at(ranges, model, options, m) == "");
}

} // namespace
} // namespace mc2::planner::plan_ranges_test
