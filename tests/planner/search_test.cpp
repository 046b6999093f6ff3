#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "mc2/planner/planner.hpp"
#include "support/models.hpp"

namespace mc2::planner {
namespace {

/// Every cut of the family, simulated one by one.
double brute_force_us(const CostModel& model, const OpSpec& op, const PlanOptions& options) {
  double best_us = 1e300;
  for (const auto& cut : enumerate_cuts(op, options).value())
    for (const auto& cost : model.variants)
      best_us = std::min(best_us, predict_cut(op, model, cost.variant, cut).value().makespan.us);
  return best_us;
}

TEST(Search, BeatsTheRecipeOnItsOwnExample) {
  const CostModel model = testing::worked_example_model();
  PlanOptions formula;
  formula.strategy = "formula";
  EXPECT_LE(make_plan(model.op, model, {}).value().makespan.us,
            make_plan(model.op, model, formula).value().makespan.us);
}

TEST(Search, DoesNotCutWhenSlowdownEatsTheOverlap) {
  // With both lanes twice as slow while overlapping, overlap gains nothing, and each block adds its fixed cost.
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.slowdown = model.variants[0].communication.slowdown = 2;
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_FALSE(plan.is_cut());
  EXPECT_DOUBLE_EQ(plan.makespan.us, plan.serial_us);
}

TEST(Search, ShowsTheUncutPlanAmongTheRunnersUp) {
  const CostModel model = testing::worked_example_model();
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_TRUE(plan.is_cut());
  EXPECT_TRUE(std::any_of(plan.runners_up.begin(), plan.runners_up.end(),
                          [](const RunnerUp& r) { return r.cut.block_rows.size() == 1; }));
  for (const auto& runner_up : plan.runners_up) EXPECT_FALSE(runner_up.reason.empty());
}

TEST(Search, CertificateAccountsForEveryCandidate) {
  const CostModel model = testing::worked_example_model();
  const Plan plan = make_plan(model.op, model, {}).value();
  const auto& certificate = plan.certificate.value();
  EXPECT_EQ(certificate.candidate_count, certificate.simulated_count + certificate.bounded_count);
  EXPECT_EQ(certificate.candidate_count,
            static_cast<std::int64_t>(enumerate_cuts(model.op, {}).value().size()));
}

TEST(Search, FasterVariantWins) {
  CostModel model = testing::worked_example_model();
  model.variants.push_back(model.variants[0]);
  model.variants[1].variant.name = "faster";
  model.variants[1].compute.curve = testing::affine(CurveAxis::Rows, 0, 600.0 / 4096);
  EXPECT_EQ(make_plan(model.op, model, {}).value().variant.name, "faster");
}

TEST(Search, ShapesWithoutALegalCutStayWhole) {
  const CostModel model = testing::worked_example_model();
  for (const std::int64_t m : {1, 7, 127, 128, 255}) {
    OpSpec op = model.op;
    op.m = m;
    const Plan plan = make_plan(op, model, {}).value();
    EXPECT_EQ(plan.cut.block_rows, std::vector<std::int64_t>{m});
  }
}

TEST(Search, HugeAxesAreSearchedInBoundedTime) {
  const CostModel model = testing::worked_example_model();
  OpSpec op = model.op;
  op.n = op.k = 64;
  op.m = kMaxSize;
  CostModel small = model;
  small.op.n = small.op.k = 64;
  const Plan plan = make_plan(op, small, {}).value();
  EXPECT_EQ(std::accumulate(plan.cut.block_rows.begin(), plan.cut.block_rows.end(), std::int64_t{0}), kMaxSize);
  EXPECT_NE(plan.certificate->text.find("coarser"), std::string::npos);
}

TEST(Search, ModelOfAnotherOperatorIsRefused) {
  const CostModel model = testing::worked_example_model();
  OpSpec op = model.op;
  op.n = 4096;
  EXPECT_EQ(make_plan(op, model, {}).error().code, ErrorCode::OutOfRange);
}

TEST(Search, ProvenanceSaysWhichBlockLeavesTheMeasuredRange) {
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.curve.valid_min_x = 256;
  model.variants[0].compute.curve.valid_max_x = 300;
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_EQ(plan.makespan.provenance, Provenance::Extrapolated);
  EXPECT_NE(plan.makespan.reason.find("256..300 rows"), std::string::npos);
}

TEST(Search, IntervalHoldsTheEstimate) {
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.curve.relative_interval = 0.05;
  model.variants[0].communication.curve.relative_interval = 0.1;
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_LT(plan.makespan.low_us, plan.makespan.us);
  EXPECT_GT(plan.makespan.high_us, plan.makespan.us);
  EXPECT_GE(plan.makespan.low_us, plan.makespan.us * 0.9 - 1e-9);
  EXPECT_LE(plan.makespan.high_us, plan.makespan.us * 1.1 + 1e-9);
}

TEST(Search, OptionsAreCheckedByName) {
  const CostModel model = testing::worked_example_model();
  PlanOptions options;
  options.alignment = 0;
  EXPECT_EQ(make_plan(model.op, model, options).error().field, "alignment");
  options = {};
  options.max_block_count = 0;
  EXPECT_EQ(make_plan(model.op, model, options).error().field, "max_block_count");
  options = {};
  options.strategy = "magic";
  EXPECT_EQ(make_plan(model.op, model, options).error().code, ErrorCode::UnknownName);
}

TEST(PredictCut, RefusesBlocksThatDoNotCoverTheAxis) {
  const CostModel model = testing::worked_example_model();
  const Variant direct = model.variants[0].variant;
  for (const auto& blocks : {std::vector<std::int64_t>{}, {4095}, {4096, 1}, {0, 4096}, {-1, 4097}}) {
    const auto plan = predict_cut(model.op, model, direct, Cut{blocks});
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().field, "blocks");
  }
}

TEST(PredictCut, TakesAnyBlockListThatCoversTheAxis) {
  const CostModel model = testing::worked_example_model();
  const Plan plan = predict_cut(model.op, model, model.variants[0].variant, Cut{{1, 2, 4093}}).value();
  EXPECT_EQ(plan.cut.order(), BlockOrder::Free);
  EXPECT_EQ(plan.timeline.first.size(), 3u);
}

CostModel random_model(std::int64_t m) {
  const auto number = [](int low, int high, double scale) { return *rc::gen::inRange(low, high) * scale; };
  auto model = testing::model_of(testing::all_reduce_op(m, 512, 512, DType::F32, 2),
                                 testing::affine(CurveAxis::Rows, number(0, 200, 1), number(1, 100, 0.01)),
                                 testing::affine(CurveAxis::Bytes, number(0, 200, 1), number(1, 100, 5e-6)),
                                 1 + number(0, 20, 0.1), 1 + number(0, 20, 0.1));
  model.variants[0].compute.fixed_us = number(0, 20, 1);
  model.variants[0].communication.fixed_us = number(0, 20, 1);
  return model;
}

RC_GTEST_PROP(Search, FindsWhatBruteForceFinds, ()) {
  const std::int64_t m = *rc::gen::inRange(1, 3000);
  const CostModel model = random_model(m);
  PlanOptions options;
  options.alignment = *rc::gen::element<std::int64_t>(1, 32, 64, 128, 200);
  if (options.alignment == 1) options.alignment = std::max<std::int64_t>(1, m / 40);
  options.min_block_rows = *rc::gen::inRange(1, 300);
  options.max_block_count = *rc::gen::inRange(1, 40);
  const Plan plan = make_plan(model.op, model, options).value();
  const double expected_us = brute_force_us(model, model.op, options);
  RC_ASSERT(std::abs(plan.makespan.us - expected_us) <= 1e-9 * expected_us);
}

RC_GTEST_PROP(Search, PlansAreLegalAndNeverWorseThanUncut, ()) {
  const std::int64_t m = *rc::gen::inRange(1, 20000);
  const CostModel model = random_model(m);
  PlanOptions options;
  options.min_block_rows = *rc::gen::inRange(1, 300);
  options.max_block_count = *rc::gen::inRange(1, 64);
  const Plan plan = make_plan(model.op, model, options).value();
  const auto& rows = plan.cut.block_rows;
  RC_ASSERT(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == m);
  RC_ASSERT(static_cast<std::int64_t>(rows.size()) <= options.max_block_count);
  RC_ASSERT(plan.makespan.us <= plan.serial_us * (1 + 1e-12));
  RC_ASSERT(plan.makespan.us >= plan.ideal_us * (1 - 1e-12));
  std::set<std::int64_t> unaligned;
  for (const auto length : rows) {
    if (plan.is_cut()) RC_ASSERT(length >= options.min_block_rows);
    if (length % options.alignment != 0) unaligned.insert(length);
  }
  RC_ASSERT(unaligned.size() <= 1u);
}

RC_GTEST_PROP(Search, SameQuestionSameAnswer, ()) {
  const CostModel model = random_model(*rc::gen::inRange(1, 5000));
  RC_ASSERT(make_plan(model.op, model, {}).value() == make_plan(model.op, model, {}).value());
}

} // namespace
} // namespace mc2::planner
