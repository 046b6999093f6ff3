#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "mc2/planner/planner.hpp"
#include "support/models.hpp"
#include "support/random_slices.hpp"

namespace mc2::planner::free_list_test {
namespace {

PlanOptions free_options() {
  PlanOptions options;
  options.strategy = "free";
  options.require_significant_gain = false;
  return options;
}

/// The least makespan of all block lists whose cut points are multiples of the alignment from one end of the axis,
/// predicted one by one.
double brute_force_us(const CostModel& model, const PlanOptions& options) {
  const std::int64_t rows = traits_of(model.op.kind).cut_axis_length(model.op), step = options.alignment;
  const Variant& variant = model.variants[0].variant;
  double best_us = predict_cut(model.op, model, variant, Cut{{rows}}).value().makespan.us;
  for (const std::int64_t offset : {step, rows % step == 0 ? step : rows % step}) {
    std::vector<std::int64_t> points;
    for (std::int64_t at = offset; at < rows; at += step) points.push_back(at);
    for (unsigned chosen = 1; chosen < 1U << points.size(); ++chosen) {
      Cut cut;
      std::int64_t from = 0;
      for (std::size_t i = 0; i < points.size(); ++i)
        if ((chosen >> i & 1U) != 0) cut.block_rows.push_back(points[i] - std::exchange(from, points[i]));
      cut.block_rows.push_back(rows - from);
      if (static_cast<std::int64_t>(cut.block_rows.size()) > options.max_block_count) continue;
      if (*std::min_element(cut.block_rows.begin(), cut.block_rows.end()) < options.min_block_rows) continue;
      best_us = std::min(best_us, predict_cut(model.op, model, variant, cut).value().makespan.us);
    }
  }
  return best_us;
}

TEST(FreeList, GrowingBlocksBeatEqualOnes) {
  // Compute takes 1 us a row, the link 2 us a row and 20 us a message. Doubling blocks of 1, 2, 4 and 8 x 128 rows keep
  // the link busy from 128 us on: 128 + 2 x 1920 + 4 x 20. The short/long family can only start with one short block.
  const CostModel model =
      testing::model_of(testing::all_reduce_op(1920, 256, 32, DType::F32, 2), testing::affine(CurveAxis::Rows, 0, 1),
                        testing::affine(CurveAxis::Bytes, 20, 2.0 / 1024));
  const Plan plan = make_plan(model.op, model, free_options()).value();
  EXPECT_EQ(plan.cut.block_rows, (std::vector<std::int64_t>{128, 256, 512, 1024}));
  EXPECT_DOUBLE_EQ(plan.makespan.us, 128 + 2 * 1920 + 4 * 20);
  EXPECT_GT(plan.certificate->restriction_cost.value(), 0);
  EXPECT_NE(plan.certificate->text.find("short/long"), std::string::npos);
}

TEST(FreeList, ExpectedMakespanIsItsOnlyObjective) {
  const CostModel model = testing::worked_example_model();
  PlanOptions options = free_options();
  options.objective_quantile = 0.9;
  EXPECT_EQ(make_plan(model.op, model, options).error().field, "objective_quantile");
}

TEST(FreeList, HugeAxesAreSearchedInBoundedTime) {
  CostModel model = testing::worked_example_model();
  model.op.n = model.op.k = 64;
  model.op.m = kMaxSize;
  const Plan plan = make_plan(model.op, model, free_options()).value();
  const auto& rows = plan.cut.block_rows;
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), kMaxSize);
}

TEST(FreeList, InsignificantGainIsNotTaken) {
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.curve.relative_interval = model.variants[0].communication.curve.relative_interval = 1;
  PlanOptions options = free_options();
  options.require_significant_gain = true;
  const Plan plan = make_plan(model.op, model, options).value();
  EXPECT_FALSE(plan.is_cut());
  EXPECT_FALSE(plan.runners_up.empty());
}

/// Checks that each runner-up's text, such as "12.3 % slower" or "12.3 % faster", compares it with the chosen plan.
void expect_percentages_of(const Plan& plan) {
  ASSERT_FALSE(plan.runners_up.empty());
  EXPECT_TRUE(std::ranges::is_sorted(plan.runners_up, {}, &RunnerUp::makespan_us));
  for (const RunnerUp& loser : plan.runners_up) {
    const double ratio = loser.makespan_us / plan.makespan.us - 1;
    char text[64];
    std::snprintf(text, sizeof text, "%.1f %% %s", std::abs(ratio) * 100,
                  ratio > 0 ? "slower" : "faster by the curves");
    EXPECT_TRUE(ratio == 0 || loser.reason.starts_with(text)) << loser.cut.text() << ": " << loser.reason;
  }
}

TEST(FreeList, RunnersUpAreComparedWithTheChoice) {
  CostModel model = testing::worked_example_model();
  const Plan chosen = make_plan(model.op, model, free_options()).value();
  EXPECT_EQ(chosen.cut.order(), BlockOrder::Free);
  expect_percentages_of(chosen);
  EXPECT_FALSE(chosen.runners_up.back().cut.block_rows.size() > 1);
  // Where the gain is not significant, the free list is the first runner-up.
  model.variants[0].compute.curve.relative_interval = model.variants[0].communication.curve.relative_interval = 1;
  PlanOptions options = free_options();
  options.require_significant_gain = true;
  const Plan uncut = make_plan(model.op, model, options).value();
  ASSERT_FALSE(uncut.is_cut());
  expect_percentages_of(uncut);
  EXPECT_EQ(uncut.runners_up.front().cut, chosen.cut);
}

TEST(FreeList, ShowsNoMoreRunnersUpThanAreWanted) {
  const CostModel model = testing::worked_example_model();
  PlanOptions options = free_options();
  options.runner_up_count = 2;
  EXPECT_EQ(make_plan(model.op, model, options).value().runners_up.size(), 3); // two, and the uncut plan beside them
}

CostModel random_model() {
  const auto number = [](int low, int high, double scale) { return *rc::gen::inRange(low, high) * scale; };
  const std::int64_t rows = *rc::gen::inRange<std::int64_t>(1, 1300);
  CostModel model = testing::model_of(testing::all_reduce_op(rows, 256, 32, DType::F32, 2),
                                      testing::affine(CurveAxis::Rows, number(0, 200, 1), number(1, 100, 0.01)),
                                      testing::affine(CurveAxis::Bytes, number(0, 200, 1), number(1, 100, 5e-6)),
                                      1 + number(0, 20, 0.1), 1 + number(0, 20, 0.1));
  // Half of the models have a jump that makes some lengths much better than their neighbours.
  if (*rc::gen::arbitrary<bool>())
    model.variants[0].compute.curve.shape =
        PiecewiseCurve{number(100, 600, 1), 1, 0, 0.3, 10, 0.3, 10 + number(0, 200, 1)};
  if (*rc::gen::arbitrary<bool>()) {
    model.op.kind = OpKind::AllGatherMatmul;
    model.op.m = 2 * rows;
    model.op.k = 256;
  }
  model.variants[0].compute.curve.axis = compute_axis(model.op);
  model.variants[0].communication.fixed_us = number(0, 20, 1);
  model.variants[0].run_us = number(0, 40, 1);
  model.variants[0].compute.start_us = number(0, 40, 1);
  model.variants[0].communication.start_us = number(0, 40, 1);
  if (*rc::gen::arbitrary<bool>()) model.variants[0].variant.fields["slices"] = testing::random_slices();
  return model;
}

RC_GTEST_PROP(FreeList, FindsWhatBruteForceFinds, ()) {
  const CostModel model = random_model();
  PlanOptions options = free_options();
  options.alignment = 128;
  options.min_block_rows = *rc::gen::inRange(1, 300);
  options.max_block_count = *rc::gen::inRange(1, 12);
  const Plan plan = make_plan(model.op, model, options).value();
  const double expected_us = brute_force_us(model, options);
  RC_ASSERT(std::abs(plan.makespan.us - expected_us) <= 1e-9 * expected_us);
  RC_ASSERT(static_cast<std::int64_t>(plan.cut.block_rows.size()) <= options.max_block_count);
}

RC_GTEST_PROP(FreeList, IsNeverSlowerThanTheShortLongFamily, ()) {
  CostModel model = random_model();
  model.op.m *= *rc::gen::inRange(1, 20);
  model.variants[0].compute.curve.axis = compute_axis(model.op);
  PlanOptions family = free_options();
  family.strategy = "search";
  const Plan free_plan = make_plan(model.op, model, free_options()).value();
  RC_ASSERT(free_plan.makespan.us <= make_plan(model.op, model, family).value().makespan.us);
  RC_ASSERT(free_plan.certificate->restriction_cost.value() >= 0);
}

} // namespace
} // namespace mc2::planner::free_list_test
