#include "mc2/planner/llm_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::planner::llm_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

LlmSite site(std::string layer, Parallelism parallelism, OpKind kind, std::int64_t count, LlmPoint point) {
  LlmSite result;
  result.layer.layer = std::move(layer);
  result.layer.parallelism = parallelism;
  result.layer.count = count;
  result.kind = kind;
  point.op = {kind, 512, 64, 64, DType::Bf16, 2};
  result.op = point.op;
  result.points.push_back(std::move(point));
  return result;
}

LlmPoint point(double serial_us, double compute_us, double fused_us, double saved_low, double saved_high,
               Provenance provenance) {
  return {512,
          {},
          {{256, 256}},
          {"direct", {}},
          serial_us,
          compute_us,
          {fused_us, 0.9 * fused_us, 1.2 * fused_us, provenance, ""},
          BenefitInterval{saved_low, saved_high}};
}

/// Two layers of a model, each of which occurs twice. The input of the first may need an all-gather; the output of the
/// second is summed by an all-reduce or by a reduce-scatter.
std::vector<LlmSite> two_layers() {
  return {site("up", Parallelism::Column, OpKind::AllGatherMatmul, 2,
               point(100, 60, 80, 0.1, 0.3, Provenance::Interpolated)),
          site("down", Parallelism::Row, OpKind::MatmulAllReduce, 2,
               point(200, 120, 150, 0.2, 0.3, Provenance::Extrapolated)),
          site("down", Parallelism::Row, OpKind::MatmulReduceScatter, 2,
               point(160, 120, 130, 0.1, 0.2, Provenance::Interpolated))};
}

TEST(LlmPlan, AStepIsTheSumOfItsLayersInBothForms) {
  const std::vector<std::int64_t> all_tokens{512};
  const auto steps = steps_of(two_layers(), all_tokens);
  ASSERT_EQ(steps.size(), 2U);
  const LlmStep& all_reduce = steps[0];
  EXPECT_EQ(all_reduce.form, LlmForm::AllReduce);
  EXPECT_DOUBLE_EQ(all_reduce.serial_us, 2 * (60 + 200)); // the first layer runs without a collective
  EXPECT_DOUBLE_EQ(all_reduce.fused.us, 2 * (60 + 150));
  EXPECT_DOUBLE_EQ(all_reduce.fused.low_us, 0.9 * 2 * (60 + 150)); // a matmul's interval is as wide as its operator's
  EXPECT_DOUBLE_EQ(all_reduce.fused.high_us, 1.2 * 2 * (60 + 150));
  EXPECT_EQ(all_reduce.fused.provenance, Provenance::Extrapolated);
  EXPECT_DOUBLE_EQ(all_reduce.benefit_interval->low, 2 * 200 * 0.2 / 520); // the first layer's matmul saves nothing
  EXPECT_DOUBLE_EQ(all_reduce.benefit_interval->high, 2 * 200 * 0.3 / 520);
  const LlmStep& sequence = steps[1];
  EXPECT_EQ(sequence.form, LlmForm::SequenceParallel);
  EXPECT_DOUBLE_EQ(sequence.serial_us, 2 * (100 + 160));
  EXPECT_DOUBLE_EQ(sequence.saved_us(), 2 * (20 + 30));
  EXPECT_EQ(sequence.fused.provenance, Provenance::Interpolated);
  EXPECT_THAT(sequence.missing, IsEmpty());
}

// Its time is that of the uncut matmul, less what the waves of fewer rows take less.
TEST(LlmPlan, APlainMatmulOnAGpuFollowsItsWaves) {
  CostModel model;
  model.op = {OpKind::AllGatherMatmul, 8192, 7168, 8192, DType::Bf16, 8};
  model.fingerprint.fields = {{"gpu_model", "NVIDIA H200"}, {"sm_count", "132"}};
  EXPECT_DOUBLE_EQ(plain_matmul_us(model.op, model, 8192, 1000), 1000);
  EXPECT_NEAR(plain_matmul_us(model.op, model, 4096, 1000), 500, 20);
  OpSpec few = model.op;
  few.m = 8;
  EXPECT_NEAR(plain_matmul_us(few, model, 1, 40), 40, 0.1); // a single row, too, takes as long as the weights do
}

TEST(LlmPlan, ALayerWithoutAPlanIsNamed) {
  auto sites = two_layers();
  sites[0].points.clear();
  const std::vector<std::int64_t> all_tokens{512, 1024};
  const auto steps = steps_of(sites, all_tokens);
  ASSERT_EQ(steps.size(), 2U); // nothing was planned for 1024
  EXPECT_THAT(steps[0].missing, ElementsAre("up"));
  EXPECT_THAT(steps[1].missing, ElementsAre("up"));
  EXPECT_FALSE(faster_form(steps, 512));
}

TEST(LlmPlan, ALayerThatTheRanksCannotHaveIsNamedToo) {
  auto sites = two_layers();
  sites[0].op.reset();
  sites[0].points.clear();
  const std::vector<std::int64_t> all_tokens{512};
  const auto steps = steps_of(sites, all_tokens);
  EXPECT_THAT(steps[0].missing, ElementsAre("up"));
  EXPECT_DOUBLE_EQ(steps[0].serial_us, 2 * 200);
}

TEST(LlmPlan, ExpertsHaveTheirPartInTheSequenceParallelForm) {
  auto sites = two_layers();
  sites.push_back(site("expert_up", Parallelism::Dispatch, OpKind::AllToAllMatmul, 3,
                       point(90, 50, 80, 0.1, 0.2, Provenance::Interpolated)));
  const std::vector<std::int64_t> all_tokens{512};
  const auto steps = steps_of(sites, all_tokens);
  EXPECT_THAT(steps[0].missing, ElementsAre("expert_up")); // every rank has all tokens: there is nothing to dispatch
  EXPECT_DOUBLE_EQ(steps[0].serial_us, 2 * (60 + 200));
  EXPECT_THAT(steps[1].missing, IsEmpty());
  EXPECT_DOUBLE_EQ(steps[1].serial_us, 2 * (100 + 160) + 3 * 90);
  EXPECT_FALSE(faster_form(steps, 512));
}

PlanRange range(std::int64_t first_m, std::int64_t last_m, Schedule schedule, std::int64_t long_rows, double least,
                double most) {
  PlanRange result;
  result.first_m = first_m;
  result.last_m = last_m;
  result.rule = {{"direct", {}}, schedule, long_rows, long_rows > 0 ? 64 : 0};
  result.least_benefit = least;
  result.most_benefit = most;
  return result;
}

LlmSite planned(OpKind kind, int ranks, std::vector<PlanRange> ranges) {
  LlmSite result;
  result.kind = kind;
  result.op = OpSpec{kind, 4096, 64, 64, DType::Bf16, ranks};
  result.ranges = PlanRanges{*result.op, {}, 1, std::move(ranges)};
  return result;
}

TEST(LlmPlan, RunsThatTouchAreOne) {
  const auto site =
      planned(OpKind::MatmulAllReduce, 4,
              {range(1, 99, Schedule::Serial, 0, 0, 0), range(100, 200, Schedule::Pipelined, 64, 0.1, 0.2),
               range(201, 300, Schedule::LocalFirst, 0, 0.05, 0.15), range(301, 400, Schedule::Serial, 0, 0, 0),
               range(401, 500, Schedule::Pipelined, 128, 0.3, 0.4)});
  EXPECT_THAT(fused_runs(site, 1, 480), ElementsAre(LlmRun{100, 300, 0.05, 0.2}, LlmRun{401, 480, 0.3, 0.4}));
}

TEST(LlmPlan, TokensOfARangeAreThoseWhoseRowsItHas) {
  auto site = planned(OpKind::MatmulAllToAll, 8, {range(72, 1024, Schedule::Pipelined, 8, 0.1, 0.2)});
  site.layer.experts = ExpertCount{8, 2};
  site.layer.parallelism = Parallelism::Combine;
  const LlmRun run = tokens_of(site, site.ranges->ranges[0], 1, 100'000);
  for (const std::int64_t tokens : {run.first_tokens, run.last_tokens}) {
    EXPECT_GE(site.layer.rows_of(tokens, site.kind, 8), 72) << tokens;
    EXPECT_LE(site.layer.rows_of(tokens, site.kind, 8), 1024) << tokens;
  }
  EXPECT_LT(site.layer.rows_of(run.first_tokens - 1, site.kind, 8), 72);
  EXPECT_GT(site.layer.rows_of(run.last_tokens + 1, site.kind, 8), 1024);
  EXPECT_EQ(tokens_of(site, site.ranges->ranges[0], 300, 4000).first_tokens, 300);
  EXPECT_EQ(tokens_of(site, site.ranges->ranges[0], 300, 4000).last_tokens, 4000);
}

TEST(LlmPlan, TheFasterFormIsNamedBeyondTheTolerance) {
  const std::vector<std::int64_t> all_tokens{512};
  auto sites = two_layers(); // both forms take 420 us
  EXPECT_FALSE(faster_form(steps_of(sites, all_tokens), 512));
  sites[1].points[0].fused.us = 155; // 430, 2.4 % more
  EXPECT_EQ(faster_form(steps_of(sites, all_tokens), 512), LlmForm::SequenceParallel);
  EXPECT_FALSE(faster_form(steps_of(sites, all_tokens), 1024));
}

LlmStep step(std::int64_t tokens, LlmForm form, double serial_us, double fused_us) {
  LlmStep result;
  result.tokens = tokens, result.form = form, result.serial_us = serial_us, result.fused.us = fused_us;
  return result;
}

TEST(LlmPlan, SequenceParallelismPaysFromTheLastStepAtWhichItDoesNot) {
  std::vector<LlmStep> steps;
  for (const auto& [tokens, fused_us] :
       std::vector<std::pair<std::int64_t, double>>{{64, 90}, {128, 99}, {256, 97}, {512, 50}}) {
    steps.push_back(step(tokens, LlmForm::AllReduce, 100, 60)); // only its serial time counts
    steps.push_back(step(tokens, LlmForm::SequenceParallel, 110, fused_us));
  }
  EXPECT_EQ(sequence_parallel_from(steps).value(), 256); // at 128 the forms differ by less than the tolerance
  steps.back().fused.us = 99;
  EXPECT_EQ(sequence_parallel_from(steps).value(), std::nullopt);
  steps.back().fused.us = 50;
  steps[4].missing = {"mlp_down"};
  EXPECT_EQ(sequence_parallel_from(steps).value(), 512);
  steps.back().missing = {"mlp_up"};
  EXPECT_EQ(sequence_parallel_from(steps).error().field, "mlp_up");
  steps.pop_back();
  EXPECT_EQ(sequence_parallel_from(steps).error().code, ErrorCode::Infeasible);
  EXPECT_EQ(sequence_parallel_from({}).error().code, ErrorCode::Infeasible);
}

TEST(LlmPlan, StepsArePowersOfTwoBetweenTheEnds) {
  EXPECT_THAT(steps_between(1, 8), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(steps_between(3, 20), ElementsAre(3, 4, 8, 16, 20));
  EXPECT_THAT(steps_between(7, 7), ElementsAre(7));
  EXPECT_THAT(steps_between(2, 8, 2), ElementsAre(2, 3, 4, 6, 8));
}

LlmConfig toy() {
  LlmConfig config;
  config.name = "Toy";
  config.layer_count = 3;
  config.hidden = 512;
  config.heads = 4;
  config.key_value_heads = 2;
  config.head_columns = 128;
  config.dense_layer_count = 1;
  config.mlp_inner = 1024;
  config.experts = ExpertLayers{2, {8, 2}, 256, 256};
  return config;
}

TEST(LlmConfig, NamesItsLayersInTheOrderOfAPass) {
  ASSERT_TRUE(toy().validate());
  std::vector<std::string> names;
  for (const auto& layer : toy().layers()) names.push_back(layer.layer);
  EXPECT_THAT(names, ElementsAre("attention_qkv", "attention_output", "mlp_gate_up", "mlp_down", "expert_gate_up",
                                 "expert_down", "shared_expert_gate_up", "shared_expert_down"));
  EXPECT_EQ(toy().text(),
            "3 layers, hidden 512, 4 heads of 128 (2 of keys and values), MLP 1024 in 1, 2 of 8 experts of 256 and a "
            "shared one of 256 in 2");
}

TEST(LlmConfig, RefusesWhatDoesNotAddUp) {
  auto config = toy();
  config.dense_layer_count = 2;
  EXPECT_THAT(config.validate().error().text(), HasSubstr("layers: are 3, of which 4 have"));
  config = toy();
  config.key_value_heads = 3;
  EXPECT_THAT(config.validate().error().text(), HasSubstr("3 do not divide the 4 heads"));
  config = toy();
  config.experts->experts.per_token = 9;
  EXPECT_THAT(config.validate().error().text(), HasSubstr("are 9, more than the 8 that there are"));
  config = toy();
  config.hidden = 0;
  EXPECT_THAT(config.validate().error().text(), HasSubstr("hidden size: is 0; legal: 1 to"));
}

} // namespace
} // namespace mc2::planner::llm_plan_test
