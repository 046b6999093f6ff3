#include "mc2/planner/explanation.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "support/models.hpp"

namespace mc2::planner::explanation_test {
namespace {

/// A model of 256 rows: compute takes 1 us a row, communication takes 10 us and 1 us a row.
CostModel small_model() {
  const OpSpec op = testing::all_reduce_op(256, 64, 64, DType::F32, 2);
  return testing::model_of(op, testing::affine(CurveAxis::Rows, 0, 1),
                           testing::affine(CurveAxis::Bytes, 10, 1.0 / 256));
}

Plan two_blocks(const CostModel& model) {
  return predict_cut(model.op, model, model.variants[0].variant, Cut{{128, 128}}).value();
}

TEST(Explanation, TellsWhereTheMakespanGoes) {
  // Compute: 0 to 128 to 256. Communication: 128 to 266 to 404, which are 276 us. Uncut it would need 266; the other 10
  // are the second block's latency.
  const CostModel model = small_model();
  const Explanation explanation = explain(two_blocks(model), &model, {}).value();
  EXPECT_EQ(explanation.account.lane, Lane::Communication);
  EXPECT_DOUBLE_EQ(explanation.account.uncut_us, 266);
  EXPECT_DOUBLE_EQ(explanation.account.cutting_us, 10);
  EXPECT_DOUBLE_EQ(explanation.account.before_us, 128);
  EXPECT_DOUBLE_EQ(explanation.account.contention_us + explanation.account.between_us + explanation.account.after_us,
                   0);
  EXPECT_DOUBLE_EQ(explanation.use.second.before_us, 128); // head
  EXPECT_DOUBLE_EQ(explanation.use.first.after_us, 148);   // tail: 404 - 256
  EXPECT_DOUBLE_EQ(explanation.use.overlap_us, 128);
  EXPECT_NE(explanation.bound_text.find("communication bound"), std::string::npos);
}

TEST(Explanation, SeparatesContentionFromTheCostOfCutting) {
  // Communication is twice as slow while compute runs: from 128 to 256 it does 64 us of work, so contention costs 64.
  CostModel model = small_model();
  model.variants[0].communication.slowdown = 2;
  const Explanation explanation = explain(two_blocks(model), &model, {}).value();
  EXPECT_DOUBLE_EQ(explanation.account.contention_us, 64);
  EXPECT_NEAR(explanation.account.cutting_us, 10, 1e-9);
}

TEST(Explanation, AccountSumsToTheMakespan) {
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.slowdown = 1.1;
  model.variants[0].communication.slowdown = 1.2;
  model.variants[0].compute.fixed_us = 7;
  for (const auto& blocks : {Cut{{4096}}, Cut{{512, 896, 896, 896, 896}}, Cut{{3584, 512}}, Cut{{1024, 512, 2560}}}) {
    const Plan plan = predict_cut(model.op, model, model.variants[0].variant, blocks).value();
    EXPECT_NEAR(explain(plan, &model, {}).value().account.sum_us(), plan.makespan.us, 1e-6) << blocks.text();
  }
}

TEST(Explanation, SaysWhatEachRunnerUpLostBy) {
  const CostModel model = testing::worked_example_model();
  const Plan plan = make_plan(model.op, model, {}).value();
  const Explanation explanation = explain(plan, &model, {}).value();
  ASSERT_EQ(explanation.losses.size(), plan.runners_up.size());
  for (std::size_t i = 0; i < explanation.losses.size(); ++i) {
    const Loss& loss = explanation.losses[i];
    EXPECT_DOUBLE_EQ(loss.lost_us, plan.runners_up[i].makespan_us - plan.makespan.us);
    ASSERT_TRUE(loss.difference.has_value());
    EXPECT_NEAR(loss.difference->sum_us(), loss.lost_us, 1e-6);
  }
}

TEST(Explanation, WithoutAModelNamesWhatIsMissing) {
  const CostModel model = small_model();
  const Explanation explanation = explain(two_blocks(model), nullptr, {}).value();
  EXPECT_FALSE(explanation.sensitivity.has_value());
  ASSERT_EQ(explanation.notes.size(), 1U);
  EXPECT_NE(explanation.notes[0].find("cost model"), std::string::npos);
}

TEST(Explanation, SaysWhenTheModelHasChangedSinceThePlan) {
  const CostModel model = small_model();
  Plan plan = two_blocks(model);
  EXPECT_TRUE(explain(plan, &model, {}).value().notes.empty());
  plan.runners_up.push_back({Cut{{256}}, plan.variant, 600, "uncut"}); // this model says 522
  CostModel slower = model;
  slower.variants[0].compute.fixed_us = 40; // 2 * 168 + 138 = 474 instead of 404 us
  const auto notes = explain(plan, &slower, {}).value().notes;
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_NE(notes[0].find("runners-up were predicted with an earlier state"), std::string::npos);
  EXPECT_NE(notes[1].find("predicts 474.0 us for this cut and the plan 404.0 us"), std::string::npos);
}

TEST(Explanation, ARunnerUpThatTheModelDoesNotKnowHasNoDifference) {
  const CostModel model = small_model();
  Plan plan = two_blocks(model);
  plan.runners_up.push_back({Cut{{1, 2, 253}}, {"elsewhere", {}}, 500, "made up"});
  const Explanation explanation = explain(plan, &model, {}).value();
  EXPECT_DOUBLE_EQ(explanation.losses[0].lost_us, 500 - 404);
  EXPECT_FALSE(explanation.losses[0].difference.has_value());
}

TEST(Explanation, RefusesAPlanThatContradictsItself) {
  const CostModel model = small_model();
  const Plan good = two_blocks(model);
  const auto refused = [&](auto change) {
    Plan plan = good;
    change(plan);
    const auto explained = explain(plan, &model, {});
    return explained ? std::string("accepted") : explained.error().text();
  };
  EXPECT_EQ(refused([](Plan& p) { p.timeline.first.pop_back(); }),
            "timeline.first: has 1 spans; the plan has 2 blocks");
  EXPECT_EQ(refused([](Plan& p) { p.serial_us = -1; }), "serial_us: is -1 us; legal: 0 to 1e15");
  EXPECT_EQ(refused([](Plan& p) { p.makespan.us = 1e300; }), "makespan.us: is 1e+300 us; legal: 0 to 1e15");
  EXPECT_EQ(refused([](Plan& p) { p.ideal_us = std::numeric_limits<double>::quiet_NaN(); }),
            "ideal_us: is nan us; legal: 0 to 1e15");
  EXPECT_EQ(refused([](Plan& p) { p.slowdown.first = 0; }), "slowdown: is 0; legal: 1 to 1e15");
  EXPECT_EQ(refused([](Plan& p) { p.timeline.second[1].start_us = 0; }),
            "timeline.second[1]: must start after the block before it and end after it starts");
  EXPECT_EQ(refused([](Plan& p) { p.timeline.makespan_us = 5; }),
            "timeline.makespan_us: is 5 us, before the last block of timeline.first ends");
  EXPECT_EQ(refused([](Plan& p) {
              p.runners_up.push_back({Cut{{256}}, {}, -1, ""});
            }),
            "runners_up[0].makespan_us: is -1 us; legal: 0 to 1e15");
}

TEST(Explanation, CountsALocalPartThatComesFirstAsABlock) {
  // 2 ranks with 256 rows of A each. The local part takes 256 us while the other rows arrive, which takes 266 us. Their
  // matmul takes 256 us: 266 + 256.
  CostModel model = small_model();
  model.op.kind = OpKind::AllGatherMatmul;
  model.op.m = 512;
  model.op.k = 32; // a row of the cut axis has 2 * 32 * 4 bytes
  const Plan plan = predict_cut(model.op, model, model.variants[0].variant, Cut{{256}}).value();
  ASSERT_EQ(plan.schedule, Schedule::LocalFirst);
  const auto explained = explain(plan, &model, {});
  ASSERT_TRUE(explained.ok()) << explained.error().text();
  EXPECT_DOUBLE_EQ(explained.value().account.uncut_us, 512); // compute is the bound: 2 * 256
  EXPECT_DOUBLE_EQ(explained.value().account.between_us, 10);
  EXPECT_DOUBLE_EQ(explained.value().account.sum_us(), 522);
  Plan wrong = plan;
  wrong.schedule = Schedule::Pipelined;
  EXPECT_EQ(explain(wrong, &model, {}).error().text(), "timeline.first: has 2 spans; the plan has 1 blocks");
}

TEST(LaneUse, SumsToTheMakespan) {
  // Of 60 us the lane is busy from 10 to 30 and from 40 to 50: 30 busy, 10 before, 10 between, 10 after.
  const std::vector<Span> blocks{{10, 30}, {40, 50}};
  EXPECT_EQ(lane_use(blocks, 60), (LaneUse{30, 10, 10, 10}));
  EXPECT_EQ(lane_use({}, 60), LaneUse{});
}

} // namespace
} // namespace mc2::planner::explanation_test
