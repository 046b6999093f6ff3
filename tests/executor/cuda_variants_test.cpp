#include "backends/cuda/variants.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace mc2::executor::cuda {
namespace {

using planner::DType;
using planner::OpKind;
using planner::OpSpec;

TEST(CudaVariants, TileByTileIsForHoppersShortTypesAndAlignedRows) {
  const GpuTraits hopper{.sm_count = 132, .compute_capability = 90};
  const auto is_proposed = [](const OpSpec& op, const GpuTraits& gpu) {
    const auto variants = cuda_variants(op, gpu);
    return std::ranges::count(variants, "tile_store", &planner::Variant::name) == 2; // of both widths
  };
  const auto refusal = [](const OpSpec& op, const GpuTraits& gpu) {
    const auto read = read_variant(op, {"tile_store", {{"slices", "4"}}}, gpu);
    return read.ok() ? std::string("nothing was refused") : read.error().text();
  };
  OpSpec op{.kind = OpKind::MatmulReduceScatter, .m = 1024, .n = 512, .k = 256, .dtype = DType::Bf16, .world_size = 4};
  EXPECT_TRUE(is_proposed(op, hopper));
  EXPECT_EQ(refusal(op, hopper), "nothing was refused");
  op.n = 120;
  EXPECT_FALSE(is_proposed(op, hopper)) << "tiles are mostly padding";
  EXPECT_EQ(refusal(op, hopper), "nothing was refused");
  EXPECT_FALSE(is_proposed(op, {.sm_count = 132, .compute_capability = 100}));
  EXPECT_THAT(refusal(op, {.sm_count = 132, .compute_capability = 100}), ::testing::HasSubstr("9.0, and these have 10.0"));
  op.k = 252;
  EXPECT_THAT(refusal(op, hopper), ::testing::HasSubstr("multiples of 8, and k is 252"));
  op.dtype = DType::F32;
  EXPECT_THAT(refusal(op, hopper), ::testing::HasSubstr("bf16 and f16, not f32"));
  op = {.kind = OpKind::MatmulAllReduce, .m = 1024, .n = 512, .k = 256, .dtype = DType::Bf16, .world_size = 4};
  EXPECT_TRUE(is_proposed(op, hopper));
  EXPECT_THAT(refusal(op, hopper), ::testing::HasSubstr("it has: gemm_sms, tile")) << "an all-reduce is not handed over rank by rank";
  op.m = 64;
  EXPECT_THAT(refusal(op, hopper), ::testing::HasSubstr("no variant \"tile_store\"")) << "cut along n";
}

TEST(CudaVariants, ASettingThatAVariantHasNotIsAnsweredByThoseThatItHas) {
  const GpuTraits hopper{.sm_count = 132, .compute_capability = 90};
  const OpSpec op{.kind = OpKind::MatmulReduceScatter, .m = 1024, .n = 512, .k = 256, .dtype = DType::Bf16, .world_size = 4};
  const auto refusal = [&](const char* name, const char* setting) {
    return read_variant(op, {name, {{setting, "8"}}}, hopper).error().message;
  };
  EXPECT_EQ(refusal("direct", "sms"), "\"direct\" has no setting \"sms\"; it has: gemm_sms, tile, ctas");
  EXPECT_EQ(refusal("copy_engine", "ctas"), "\"copy_engine\" has no setting \"ctas\"; it has: gemm_sms, tile, slices");
  EXPECT_EQ(refusal("tile_store", "ctas"), "\"tile_store\" has no setting \"ctas\"; it has: gemm_sms, tile, slices");
  EXPECT_EQ(refusal("tile_store", "tile"), "tile_store has no tile \"8\"; legal: 256x128, 128x128");
}

} // namespace
} // namespace mc2::executor::cuda
