#include "mc2/finder/plan_llm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/models.hpp"

namespace mc2::finder::plan_llm_test {
namespace {

using planner::LayerShape;
using planner::OpKind;
using planner::Parallelism;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

LayerShape layer_of(Parallelism parallelism, std::int64_t n, std::int64_t k, std::int64_t units) {
  return {.model = "Toy",
          .layer = "one",
          .parallelism = parallelism,
          .n = n,
          .k = k,
          .units = units,
          .dtype = planner::DType::F16};
}

LlmQuestion question_of(std::vector<LayerShape> layers, std::int64_t tokens, int ranks) {
  return {.name = "Toy", .layers = std::move(layers), .ranks = ranks, .first_tokens = tokens, .last_tokens = tokens};
}

/// What the layer's matmul takes in a step of that many tokens.
double matmul_us(const planner::CostModel& model, const LayerShape& layer, std::int64_t tokens) {
  LlmQuestion question = question_of({layer}, tokens, model.op.world_size);
  question.plan.machine = model.fingerprint;
  auto sites = sites_of(question).value();
  const FindModel find = [&](const PlanQuestion&) { return FoundModel{.model = model}; };
  EXPECT_TRUE(plan_site(find, question, sites.front()));
  return sites.front().points.at(0).compute_us;
}

// 4 ranks gather the rows of an operator of n = 256. A row of the cut axis is 3 rows of other ranks' shards, for which
// the curve has 0.5 us, after 20 us for the launch. The own shard takes another 20 us.
TEST(PlanLlm, AMatmulWithoutAGatherIsOneLaunchOfAllTokens) {
  planner::CostModel model = mc2::testing::all_gather_model();
  model.variants.front().compute.curve = mc2::testing::affine(planner::CurveAxis::Rows, 20, 0.5);
  model.variants.front().local_compute = mc2::testing::affine(planner::CurveAxis::Rows, 20, 0.5 / 3);
  const LayerShape layer = layer_of(Parallelism::Column, 4 * 256, 512, 4 * 256);
  EXPECT_NEAR(matmul_us(model, layer, 1000), 20 + 1000 * 0.5 / 3, 1e-9);
  EXPECT_NEAR(matmul_us(model, layer, 1001), 20 + 1001 * 0.5 / 3, 1e-9); // not 1004, which the gather is padded to
  EXPECT_NEAR(matmul_us(model, layer, 1), 20 + 0.5 / 3, 1e-9);
}

// The variants that keep a part of the device back for communication take longer.
TEST(PlanLlm, AMatmulWithoutAGatherHasTheWholeDevice) {
  planner::CostModel model = mc2::testing::all_gather_model();
  planner::VariantCost slower = model.variants.front();
  slower.variant.name = "kept_back";
  slower.compute.curve = mc2::testing::affine(planner::CurveAxis::Rows, 0, 0.6);
  slower.communication.curve = mc2::testing::affine(planner::CurveAxis::Bytes, 0, 1.0 / 8192); // but its serial is best
  model.variants.push_back(slower);
  const LayerShape layer = layer_of(Parallelism::Column, 4 * 256, 512, 4 * 256);
  EXPECT_NEAR(matmul_us(model, layer, 1024), 1024 * 0.5 / 3, 1e-9);
}

TEST(PlanLlm, AStepHasAsManyTokensInLayersThatNameNoExperts) {
  const LlmQuestion question =
      question_of({layer_of(Parallelism::Row, 512, 1024, 8), layer_of(Parallelism::Dispatch, 1024, 512, 0)}, 4096, 8);
  const auto sites = sites_of(question).value();
  EXPECT_EQ(sites[0].op->m, 4096);
  EXPECT_EQ(sites[2].kind, OpKind::AllToAllMatmul);
  EXPECT_EQ(sites[2].op->m, 4096 / 8); // each token goes to the expert of one of the 8 ranks
  EXPECT_EQ(sites[2].op->experts_per_rank, 1);
}

TEST(PlanLlm, AReasonNamesTheRanksThatCanShareAllLayers) {
  LlmQuestion question =
      question_of({layer_of(Parallelism::Row, 512, 28 * 128, 28), layer_of(Parallelism::Row, 512, 24 * 64, 24)}, 64, 8);
  auto sites = sites_of(question).value();
  EXPECT_THAT(sites[0].reason, HasSubstr("; all layers can be shared by 2 or 4 ranks")); // what divides 28 and 24
  EXPECT_TRUE(sites[2].op);
  question.layers[1].units = 15;
  question.layers[1].k = 15 * 64;
  EXPECT_THAT(sites_of(question).error().text(), HasSubstr("; no number of ranks up to 128 can share all layers"));
}

} // namespace
} // namespace mc2::finder::plan_llm_test
