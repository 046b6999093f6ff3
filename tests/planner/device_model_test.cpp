#include "mc2/planner/device_model.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

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
  // 2 x 4096 x 8192 x 4096 flops at 308.03 Tflop/s take 892.4 us; 888 us are published.
  EXPECT_NEAR(variant.compute.curve.time_us(4096), 892.4, 0.1);
  EXPECT_DOUBLE_EQ(variant.compute.curve.time_us(1), variant.compute.curve.time_us(128));
  // 6 MiB: -0.9698202 x 36 + 27.0622573 x 6 + 14.769 = 142.2 us; 64 MiB: 13.58491263 x 64 + 61.508333 = 930.9 us.
  EXPECT_NEAR(variant.communication.curve.time_us(6 << 20), 142.2, 0.1);
  EXPECT_NEAR(variant.communication.curve.time_us(64 << 20), 930.9, 0.1);
  EXPECT_DOUBLE_EQ(variant.communication.curve.time_us(1024), 18);
}

TEST(DeviceModel, ShardsOfOtherKindsCostAsTheirRowsOfProduct) {
  // Reduce-scatter: 512 rows of each of 8 shards are 4096 rows of the product. All-gather: the 7 shards of the other
  // ranks are 3584.
  const OpSpec scatter{OpKind::MatmulReduceScatter, 4096, 8192, 3072, DType::Bf16, 8};
  const OpSpec gather{OpKind::AllGatherMatmul, 4096, 8192, 3072, DType::Bf16, 8};
  const double whole = device_model("ascend-910b", all_reduce()).value().variants[0].compute.curve.time_us(4096);
  EXPECT_NEAR(device_model("ascend-910b", scatter).value().variants[0].compute.curve.time_us(512), whole, 1e-6);
  EXPECT_NEAR(device_model("ascend-910b", gather).value().variants[0].compute.curve.time_us(512), whole * 7 / 8, 1e-6);
  // On 8 ranks the reduce-scatter takes half as long as the all-reduce.
  EXPECT_NEAR(device_model("ascend-910b", scatter).value().variants[0].communication.curve.time_us(64 << 20), 930.9 / 2,
              0.1);
}

TEST(DeviceModel, SerialOfAGatherMultipliesAllRowsAtOnce) {
  const OpSpec gather{OpKind::AllGatherMatmul, 5376, 3584, 1664, DType::F16, 4};
  CostModel model = device_model("ascend-950-4p", gather).value();
  const double at_once_us = model.variants[0].compute.curve.time_us(5376 / 3.0);
  EXPECT_NEAR(make_plan(gather, model, {}).value().compute_us, at_once_us, 1e-6);
  model.fingerprint.fields["backend"] = "host"; // whose serial runs are the own shard's matmul and the others'
  EXPECT_GT(make_plan(gather, model, {}).value().compute_us, at_once_us);
}

TEST(DeviceModel, RefusesWhatNobodyPublished) {
  EXPECT_EQ(device_model("ascend-310", all_reduce()).error().code, ErrorCode::UnknownName);
  EXPECT_NE(device_model("x", all_reduce()).error().message.find("ascend-910b"), std::string::npos);
  EXPECT_EQ(device_model("ascend-910b", all_reduce(3072, 16)).error().field, "ranks");
  OpSpec op = all_reduce();
  op.dtype = DType::F32;
  EXPECT_EQ(device_model("ascend-910b", op).error().code, ErrorCode::Infeasible);
  op = all_reduce();
  op.kind = OpKind::MatmulAllToAll;
  EXPECT_EQ(device_model("ascend-910b", op).error().code, ErrorCode::Infeasible);
  op.kind = OpKind::GroupedMatmulReduceScatter;
  op.experts = {.count = 8, .top_k = 2};
  EXPECT_EQ(device_model("ascend-910b", op).error().field, "op");
  EXPECT_NE(device_model("ascend-910b", op).error().message.find("grouped matmul"), std::string::npos);
  op = all_reduce();
  op.m = 4;
  EXPECT_EQ(device_model("ascend-910b", op).error().field, "m");
  op.m = 0;
  EXPECT_EQ(device_model("ascend-910b", op).error().code, ErrorCode::InvalidSpec);
}

/// Time in us that the device's model gives to a message of `mib` MiB.
double collective_us(std::string_view device, OpKind kind, int ranks, double mib) {
  const auto model = device_model(device, {kind, 4096, 8192, 3072, DType::F16, ranks});
  if (!model) {
    ADD_FAILURE() << model.error().text();
    return 0;
  }
  return model.value().variants[0].communication.curve.time_us(mib * 1048576);
}

TEST(DeviceModel, EveryPublishedFitIsInTheUnitsOfItsSource) {
  using enum OpKind;
  // 0.8 x 1/2 x (r - 1)/r / (7/8) of the published 11.38154641 x + 248.151561, or of 250 us below 2 MiB.
  EXPECT_NEAR(collective_us("ascend-910-93", AllGatherMatmul, 8, 64), 0.4 * (11.38154641 * 64 + 248.151561), 1e-6);
  EXPECT_NEAR(collective_us("ascend-910-93", MatmulReduceScatter, 2, 1), 0.8 * 0.5 * 0.5 / 0.875 * 250, 1e-6);
  EXPECT_NEAR(collective_us("ascend-910-93", MatmulAllToAll, 16, 64), 11.38154641 * 64 + 248.151561, 1e-6);
  EXPECT_NEAR(collective_us("ascend-950-4p", AllGatherMatmul, 4, 64), 5.841842 * 64 + 8.590666, 1e-6);
  EXPECT_NEAR(collective_us("ascend-950-4p", MatmulAllReduce, 4, 64), 13.3265 * 64 + 36.1964, 1e-6);
  EXPECT_NEAR(collective_us("ascend-950-8p", AllGatherMatmul, 8, 64), 2.59568 * 64 + 5.8887, 1e-6);
  EXPECT_NEAR(collective_us("ascend-950-8p", AllToAllMatmul, 8, 64), 2.5386 * 64 + 7.6265, 1e-6);
  EXPECT_NEAR(collective_us("ascend-310p3", MatmulAllReduce, 2, 1), 72.04417474 + 6.693209, 1e-6);
  EXPECT_NEAR(collective_us("ascend-310p3", MatmulAllReduce, 4, 1), -89.115824 + 268.473025 + 34.564670, 1e-6);
  EXPECT_NEAR(collective_us("ascend-310p3", MatmulAllReduce, 4, 64), 153.555534 * 64 - 48.264442, 1e-6);
  EXPECT_NEAR(collective_us("ascend-910b3", MatmulAllReduce, 8, 64), 930.9, 0.1);
}

TEST(DeviceModel, MatmulRatesFollowTheirSources) {
  const auto matmul_us = [](std::string_view device, int ranks, std::int64_t k) {
    const OpSpec op{OpKind::MatmulAllReduce, 4096, 8192, k, DType::F16, ranks};
    return device_model(device, op).value().variants[0].compute.curve.time_us(4096);
  };
  const double operations = 2.0 * 4096 * 8192 * 4096;
  EXPECT_NEAR(matmul_us("ascend-910b3", 8, 4096), operations / 256.69e6, 0.1);
  // The published form: 0.1792226 m k n / (28 x 2^20) + 15.095.
  EXPECT_NEAR(matmul_us("ascend-950-4p", 4, 4096), 0.1792226 * 4096 * 4096 * 8192 / (28 * 1048576.0) + 15.095, 1e-6);
  // 1 / (1.5 + 0.5 x 1024 / 4096) of 72.48 Tflop/s. Where k is not a multiple of 128, 0.8 of that.
  EXPECT_NEAR(matmul_us("ascend-310p3", 2, 4096), operations / (72.48e6 / 1.625), 0.1);
  EXPECT_NEAR(matmul_us("ascend-310p3", 2, 4100), 2.0 * 4096 * 8192 * 4100 / (72.48e6 * 0.8 / (1.5 + 512 / 4100.0)),
              0.1);
}

TEST(DeviceModel, EveryDevicePlansEveryKindThatIsPublishedForIt) {
  std::set<std::pair<std::string_view, OpKind>> planned;
  for (const PublishedDevice& device : published_devices()) {
    for (const OpKind kind : {OpKind::MatmulAllReduce, OpKind::MatmulReduceScatter, OpKind::AllGatherMatmul,
                              OpKind::MatmulAllToAll, OpKind::AllToAllMatmul})
      for (const int ranks : {2, 4, 8, 16, 32}) {
        const OpSpec op{kind, 8192, 8192, 3072, DType::F16, ranks};
        const auto model = device_model(device.name, op);
        if (!model) {
          EXPECT_EQ(model.error().code, ErrorCode::Infeasible) << device.name;
          continue;
        }
        const auto plan = make_plan(op, model.value(), {});
        ASSERT_TRUE(plan) << device.name << " " << op.text() << ": " << plan.error().text();
        EXPECT_EQ(plan.value().makespan.provenance, Provenance::Analytic);
        planned.emplace(device.name, kind);
      }
  }
  EXPECT_EQ(published_devices().size(), 6U);
  EXPECT_EQ(planned.size(), 3U + 3 + 4 + 5 + 5 + 1);
}

TEST(DeviceModel, RefusalsSayWhatIsPublished) {
  const auto said = [](std::string_view device, OpKind kind, int ranks, DType dtype = DType::F16) {
    return device_model(device, {kind, 4096, 8192, 3072, dtype, ranks}).error().message;
  };
  EXPECT_NE(said("ascend-910-93", OpKind::MatmulAllReduce, 8).find("published: all_gather, reduce_scatter, all_to_all"),
            std::string::npos);
  EXPECT_NE(said("ascend-950-8p", OpKind::MatmulAllReduce, 4).find("published for 8 ranks"), std::string::npos);
  EXPECT_NE(said("ascend-310p3", OpKind::MatmulAllReduce, 8).find("published for 2, 4 ranks"), std::string::npos);
  EXPECT_NE(said("ascend-310p3", OpKind::MatmulAllReduce, 2, DType::Bf16).find("legal: f16"), std::string::npos);
}

} // namespace
} // namespace mc2::planner::device_model_test
