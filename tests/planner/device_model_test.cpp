#include "mc2/planner/device_model.hpp"

#include <gtest/gtest.h>

#include "mc2/planner/planner.hpp"

namespace mc2::planner::device_model_test {
namespace {

OpSpec all_reduce(std::int64_t k = 3072, int ranks = 8) {
  return {OpKind::MatmulAllReduce, 4096, 8192, k, DType::F16, ranks};
}

TEST(DeviceModel, GivesTheRecipesCutForItsWorkedExample) {
  PlanOptions options;
  options.strategy = "formula";
  const auto model = device_model("ascend-910b", all_reduce());
  ASSERT_TRUE(model) << model.error().text();
  const auto plan = make_plan(all_reduce(), model.value(), options);
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ(plan.value().cut.text(), "512 + 4 x 896");
  EXPECT_EQ(plan.value().makespan.provenance, Provenance::Analytic);
  EXPECT_NE(plan.value().makespan.reason.find("confidence good"), std::string::npos) << plan.value().makespan.reason;
}

TEST(DeviceModel, ComputesThePublishedCosts) {
  const auto model = device_model("ascend-910b", all_reduce(4096));
  ASSERT_TRUE(model);
  const auto& variant = model.value().variants.at(0);
  // 2 x 4096 x 8192 x 4096 flops at 308.03 Tflop/s: 892.4 us, where 888 us are published.
  EXPECT_NEAR(variant.compute.curve.time_us(4096), 892.4, 0.1);
  EXPECT_DOUBLE_EQ(variant.compute.curve.time_us(1), variant.compute.curve.time_us(128));
  // 6 MiB: -0.9698202 x 36 + 27.0622573 x 6 + 14.769 = 142.2 us; 64 MiB: 13.58491263 x 64 + 61.508333 = 930.9 us.
  EXPECT_NEAR(variant.communication.curve.time_us(6 << 20), 142.2, 0.1);
  EXPECT_NEAR(variant.communication.curve.time_us(64 << 20), 930.9, 0.1);
  EXPECT_DOUBLE_EQ(variant.communication.curve.time_us(1024), 18);
}

TEST(DeviceModel, ShardsOfOtherKindsCostAsTheirRowsOfProduct) {
  // 512 rows of each of 8 shards are 4096 rows of product; of the 7 other shards in all-gather, 3584.
  const OpSpec scatter{OpKind::MatmulReduceScatter, 4096, 8192, 3072, DType::Bf16, 8};
  const OpSpec gather{OpKind::AllGatherMatmul, 4096, 8192, 3072, DType::Bf16, 8};
  const double whole = device_model("ascend-910b", all_reduce()).value().variants[0].compute.curve.time_us(4096);
  EXPECT_NEAR(device_model("ascend-910b", scatter).value().variants[0].compute.curve.time_us(512), whole, 1e-6);
  EXPECT_NEAR(device_model("ascend-910b", gather).value().variants[0].compute.curve.time_us(512), whole * 7 / 8, 1e-6);
  // On 8 ranks both are twice as fast as the all-reduce.
  EXPECT_NEAR(device_model("ascend-910b", scatter).value().variants[0].communication.curve.time_us(64 << 20), 930.9 / 2,
              0.1);
}

TEST(DeviceModel, RefusesWhatNobodyPublished) {
  EXPECT_EQ(device_model("ascend-310", all_reduce()).error().code, ErrorCode::UnknownName);
  EXPECT_NE(device_model("x", all_reduce()).error().message.find("ascend-910b"), std::string::npos);
  EXPECT_EQ(device_model("ascend-910b", all_reduce(3072, 16)).error().field, "world_size");
  OpSpec op = all_reduce();
  op.dtype = DType::F32;
  EXPECT_EQ(device_model("ascend-910b", op).error().code, ErrorCode::Infeasible);
  op = all_reduce();
  op.kind = OpKind::MatmulAllToAll;
  EXPECT_EQ(device_model("ascend-910b", op).error().code, ErrorCode::Infeasible);
  op = all_reduce();
  op.m = 4;
  EXPECT_EQ(device_model("ascend-910b", op).error().field, "m");
  op.m = 0;
  EXPECT_EQ(device_model("ascend-910b", op).error().code, ErrorCode::InvalidSpec);
  ASSERT_EQ(published_devices().size(), 1U);
}

} // namespace
} // namespace mc2::planner::device_model_test
