#include "backends/cuda/transports/variants.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backends/cuda/runtime/gemm.hpp"
#include "backends/cuda/transports/transport.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::DType;
using planner::OpKind;
using planner::OpSpec;

TEST(CudaVariants, TilesOfTheLibraryAreThoseWhoseTimesThePlannerKnows) {
  EXPECT_THAT(described_tiles(), ::testing::UnorderedElementsAreArray(planner::known_tiles()));
}

TEST(CudaVariants, TileByTileIsForHoppersShortTypesAndAlignedRows) {
  const GpuTraits hopper{.sm_count = 132, .compute_capability = 90};
  const auto is_proposed = [](const OpSpec& op, const GpuTraits& gpu) {
    const auto variants = cuda_variants(op, gpu);
    return std::ranges::count(variants, "tile_store", &planner::Variant::name) == 2; // one per tile width
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
  EXPECT_THAT(refusal(op, {.sm_count = 132, .compute_capability = 100}),
              ::testing::HasSubstr("9.0, and these have 10.0"));
  op.k = 252;
  EXPECT_THAT(refusal(op, hopper), ::testing::HasSubstr("multiples of 8, and k is 252"));
  op.dtype = DType::F32;
  EXPECT_THAT(refusal(op, hopper), ::testing::HasSubstr("bf16 and f16, not f32"));
  op = {.kind = OpKind::MatmulAllReduce, .m = 1024, .n = 512, .k = 256, .dtype = DType::Bf16, .world_size = 4};
  EXPECT_TRUE(is_proposed(op, hopper));
  EXPECT_THAT(refusal(op, hopper), ::testing::HasSubstr("it has: gemm_sms, tile"))
      << "an all-reduce is not handed over rank by rank";
  op.m = 64;
  EXPECT_THAT(refusal(op, hopper), ::testing::HasSubstr("no variant \"tile_store\"")) << "cut along n";
}

TEST(CudaVariants, ASettingThatAVariantHasNotIsAnsweredByThoseThatItHas) {
  const GpuTraits hopper{.sm_count = 132, .compute_capability = 90};
  const OpSpec op{
      .kind = OpKind::MatmulReduceScatter, .m = 1024, .n = 512, .k = 256, .dtype = DType::Bf16, .world_size = 4};
  const auto refusal = [&](const char* name, const char* setting) {
    return read_variant(op, {name, {{setting, "8"}}}, hopper).error().message;
  };
  EXPECT_EQ(refusal("direct", "sms"), "\"direct\" has no setting \"sms\"; it has: gemm_sms, tile, ctas");
  EXPECT_EQ(refusal("copy_engine", "ctas"), "\"copy_engine\" has no setting \"ctas\"; it has: gemm_sms, tile, slices");
  EXPECT_EQ(refusal("tile_store", "ctas"), "\"tile_store\" has no setting \"ctas\"; it has: gemm_sms, tile, slices");
  EXPECT_EQ(refusal("tile_store", "tile"), "tile_store has no tile \"8\"; legal: 256x128, 128x128");
}

TEST(CudaVariants, SlicesDoubleWhereRanksDo) {
  const GpuTraits hopper{.sm_count = 132, .compute_capability = 90};
  OpSpec op{.kind = OpKind::AllGatherMatmul, .m = 1680, .n = 512, .k = 256, .dtype = DType::Bf16, .world_size = 4};
  const auto read = [&](const char* slices) { return read_variant(op, {"copy_engine", {{"slices", slices}}}, hopper); };
  const auto is_proposed = [&](const std::string& slices) {
    return std::ranges::any_of(cuda_variants(op, hopper), [&](const planner::Variant& variant) {
      return variant.name == "copy_engine" && variant.fields.contains("slices") &&
             variant.fields.at("slices") == slices;
    });
  };
  EXPECT_EQ(read("1+2").value().slicing, CudaVariant::Slicing::Doubling);
  EXPECT_EQ(read("3").value().slicing, CudaVariant::Slicing::ByRank);
  EXPECT_THAT(read("2+1").error().text(), ::testing::HasSubstr("slices=3 or slices=1+2"));
  EXPECT_TRUE(is_proposed("1+2"));
  op.world_size = 8;
  EXPECT_EQ(read("1+2+4").value().slicing, CudaVariant::Slicing::Doubling);
  EXPECT_FALSE(read("1+2"));
  EXPECT_TRUE(is_proposed("1+2+4"));
  for (const int ranks : {2, 3, 5, 6, 7}) {
    op.world_size = ranks;
    EXPECT_FALSE(read("1+2")) << ranks;
    EXPECT_FALSE(is_proposed("1+2")) << ranks;
  }
  op = {.kind = OpKind::MatmulAllToAll, .m = 1024, .n = 512, .k = 256, .dtype = DType::Bf16, .world_size = 4};
  EXPECT_THAT(read("1+2").error().text(), ::testing::EndsWith("it needs slices=4")) << "the matmul comes first";
}

TEST(CudaTransport, SlicesOfAGatherHoldEveryPeerOnce) {
  using Slicing = CudaVariant::Slicing;
  const GpuTraits hopper{.sm_count = 132, .compute_capability = 90};
  for (const Slicing slicing : {Slicing::ByRank, Slicing::Doubling}) {
    for (const int ranks : {4, 8}) {
      const OpSpec op{
          .kind = OpKind::AllGatherMatmul, .m = 1024, .n = 512, .k = 256, .dtype = DType::Bf16, .world_size = ranks};
      const std::vector<SignalMemory> signals(static_cast<std::size_t>(ranks), SignalMemory{.world_size = ranks});
      const auto transport = make_copy_transport(
          op, {.transport = CudaVariant::Transport::CopyEngine, .slicing = slicing}, signals, hopper.sm_count);
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<int> held(static_cast<std::size_t>(ranks));
        for (int slice = 0; slice < transport->slice_count(); ++slice) {
          const RankRange slice_ranks = transport->slice_ranks(rank, slice);
          EXPECT_EQ(slice_ranks.last - slice_ranks.first, slicing == Slicing::Doubling ? 1 << slice : 1);
          for (int peer = slice_ranks.first; peer < slice_ranks.last; ++peer) ++held.at(static_cast<std::size_t>(peer));
        }
        std::vector<int> expected(static_cast<std::size_t>(ranks), 1);
        expected[static_cast<std::size_t>(rank)] = 0;
        EXPECT_EQ(held, expected) << "rank " << rank << " of " << ranks;
      }
    }
  }
}

} // namespace
} // namespace mc2::executor::cuda
