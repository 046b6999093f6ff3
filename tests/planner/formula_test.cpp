#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "mc2/planner/planner.hpp"
#include "support/models.hpp"

namespace mc2::planner::formula_test {
namespace {

double step_value(const Plan& plan, const std::string& name) {
  for (const auto& step : plan.recipe)
    if (step.name == name) return step.value;
  ADD_FAILURE() << "no recipe step " << name;
  return -1;
}

PlanOptions formula_options() {
  PlanOptions options;
  options.strategy = "formula";
  return options;
}

// The published example, docs/cost_model.md §3: a=171 b=192 c=384, so the first block has 384 rows: 6 MiB, 142.2 us,
// x 1.15 = 163.6 us. In that time 834 rows are multiplied: aligned 768, which fit 4 times. So there are 4 long blocks,
// and they get 896 rows each. The short block gets the other 512 rows and comes first.
TEST(Formula, ReproducesThePublishedExampleToTheBlock) {
  const CostModel model = testing::worked_example_model();
  const Plan plan = make_plan(model.op, model, formula_options()).value();
  EXPECT_EQ(plan.cut.block_rows, (std::vector<std::int64_t>{512, 896, 896, 896, 896}));
  EXPECT_EQ(plan.bound, Bound::Communication);
  EXPECT_EQ(step_value(plan, "a"), 171);
  EXPECT_EQ(step_value(plan, "b"), 192);
  EXPECT_EQ(step_value(plan, "m0"), 384);
  EXPECT_NEAR(step_value(plan, "t"), 164, 0.5);
  EXPECT_EQ(step_value(plan, "m1"), 768);
  EXPECT_EQ(step_value(plan, "count"), 4);
  EXPECT_EQ(step_value(plan, "m1 final"), 896);
}

TEST(Formula, SmallestRuleFollowsTheText) {
  const CostModel model = testing::worked_example_model();
  PlanOptions options = formula_options();
  options.formula_short_block = ShortBlockRule::Smallest;
  EXPECT_EQ(step_value(make_plan(model.op, model, options).value(), "m0"), 171);
}

TEST(Formula, ComputeBoundPutsTheShortBlockLast) {
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.curve = testing::affine(CurveAxis::Rows, 0, 3000.0 / 4096);
  const Plan plan = make_plan(model.op, model, formula_options()).value();
  EXPECT_EQ(plan.bound, Bound::Compute);
  EXPECT_EQ(plan.cut.order(), BlockOrder::ShortLast);
  EXPECT_EQ(std::accumulate(plan.cut.block_rows.begin(), plan.cut.block_rows.end(), std::int64_t{0}), 4096);
}

TEST(Formula, IsOfMatmulsOnly) {
  CostModel model = testing::worked_example_model();
  model.op.kind = OpKind::EmbeddingAllToAll;
  model.op.tables = {.table_count = 1, .row_count = 100};
  const auto refused = make_plan(model.op, model, formula_options());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Infeasible);
  PlanOptions search;
  const auto plan = make_plan(model.op, model, search);
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  EXPECT_EQ(plan.value().reason.find("matmul"), std::string::npos) << plan.value().reason;
}

TEST(Formula, RefusesAShapeShorterThanItsShortBlock) {
  CostModel model = testing::worked_example_model();
  OpSpec op = model.op;
  op.m = 300; // fewer than the 384 of the short block
  const auto plan = make_plan(op, model, formula_options());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::Infeasible);
}

TEST(Formula, RefusesWhenTheOtherLaneCannotFillOneAlignedBlock) {
  CostModel model = testing::worked_example_model();
  // A communication that costs 142 us for the short block would not do: with a slow matmul the operator is compute
  // bound, and t is the matmul's time, which covers much communication. So a message has a fixed cost of 10 ms here,
  // while t = 1.15 * 384 * 3 us = 1325 us.
  model.variants[0].compute.curve = testing::affine(CurveAxis::Rows, 0, 3.0);
  model.variants[0].communication.curve = testing::affine(CurveAxis::Bytes, 10'000, 0);
  const auto plan = make_plan(model.op, model, formula_options());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::Infeasible);
}

TEST(Formula, RefusesMoreBlocksThanAreAllowed) {
  CostModel model = testing::worked_example_model();
  PlanOptions options = formula_options();
  options.max_block_count = 5; // the published example's 512 + 4 x 896
  EXPECT_TRUE(make_plan(model.op, model, options));
  options.max_block_count = 4;
  const Error refused = make_plan(model.op, model, options).error();
  EXPECT_EQ(refused.code, ErrorCode::Infeasible);
  EXPECT_EQ(refused.message, "cuts into 5 blocks, and max_block_count is 4; allow more, or use strategy search");
  model.op.m = kMaxSize; // about a million blocks, which are refused before they are made
  EXPECT_EQ(make_plan(model.op, model, formula_options()).error().code, ErrorCode::Infeasible);
}

TEST(Formula, RefusesShorterBlocksThanAreAllowed) {
  const CostModel model = testing::worked_example_model();
  PlanOptions options = formula_options();
  options.min_block_rows = 512; // the length of the published example's short block
  EXPECT_TRUE(make_plan(model.op, model, options));
  options.min_block_rows = 513;
  const Error refused = make_plan(model.op, model, options).error();
  EXPECT_EQ(refused.code, ErrorCode::Infeasible);
  EXPECT_EQ(refused.message,
            "cuts a block of 512 rows, and min_block_rows is 513; allow shorter ones, or use strategy search");
}

TEST(Formula, RefusesWhatTheRecipeDoesNotKnow) {
  const CostModel model = testing::worked_example_model();
  PlanOptions options = formula_options();
  options.alignment = 896; // the length of the published example's long blocks
  EXPECT_TRUE(make_plan(model.op, model, options));
  options.alignment = 256;
  const Error refused = make_plan(model.op, model, options).error();
  EXPECT_EQ(refused.code, ErrorCode::Infeasible);
  EXPECT_EQ(
      refused.message,
      "cuts long blocks of 896 rows, and alignment is 256; ask for one that divides them, or use strategy search");
  for (const char* strategy : {"formula", "wave_groups", "free"}) {
    PlanOptions careful;
    careful.strategy = strategy;
    careful.objective_quantile = 0.95;
    EXPECT_EQ(make_plan(model.op, model, careful).error().field, "objective_quantile") << strategy;
  }
}

TEST(Formula, RefusesAContentionBelowOne) {
  PlanOptions options = formula_options();
  options.formula_contention = 0.5;
  const CostModel model = testing::worked_example_model();
  EXPECT_EQ(make_plan(model.op, model, options).error().field, "formula_contention");
}

} // namespace
} // namespace mc2::planner::formula_test
