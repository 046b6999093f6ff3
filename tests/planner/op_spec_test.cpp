#include "mc2/planner/op_spec.hpp"

#include <gtest/gtest.h>

#include "mc2/planner/fingerprint.hpp"
#include "support/models.hpp"

namespace mc2::planner {
namespace {

OpSpec legal() { return testing::all_reduce_op(1024, 1024, 1024, DType::F32, 2); }

TEST(OpSpec, LegalSpecPasses) { EXPECT_TRUE(legal().validate()); }

TEST(OpSpec, ZeroNegativeAndHugeSizesAreRefusedByName) {
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-5}, kMaxSize + 1}) {
    OpSpec op = legal();
    op.k = value;
    ASSERT_FALSE(op.validate());
    EXPECT_EQ(op.validate().error().field, "k");
    EXPECT_EQ(op.validate().error().code, ErrorCode::InvalidSpec);
  }
}

TEST(OpSpec, OneRankHasNothingToOverlap) {
  OpSpec op = legal();
  op.world_size = 1;
  EXPECT_EQ(op.validate().error().field, "ranks");
}

TEST(OpSpec, OperandsBeyondTheLimitAreRefusedWithoutOverflow) {
  OpSpec op = legal();
  op.m = op.n = op.k = kMaxSize;
  EXPECT_FALSE(op.validate());
}

TEST(OpSpec, FlopCountIsTwoMnk) { EXPECT_DOUBLE_EQ(legal().flop_count(), 2.0 * 1024 * 1024 * 1024); }

TEST(OpRegistry, NamesRoundTrip) {
  for (const auto& traits : op_registry()) EXPECT_EQ(parse_op_kind(traits.name).value(), traits.kind);
}

TEST(OpRegistry, UnknownNameListsTheLegalOnes) {
  const auto kind = parse_op_kind("matmul_all_redoce");
  ASSERT_FALSE(kind);
  EXPECT_EQ(kind.error().code, ErrorCode::UnknownName);
  EXPECT_NE(kind.error().message.find("matmul_all_reduce"), std::string::npos);
}

TEST(OpRegistry, AllReduceMessageIsTheProduct) {
  // One row of the product: 1024 columns of 4 bytes.
  EXPECT_EQ(traits_of(OpKind::MatmulAllReduce).message_bytes_per_row(legal()), 4096);
}

OpSpec sharded(OpKind kind, std::int64_t m) { return {kind, m, 512, 128, DType::F16, 4}; }

TEST(OpRegistry, RowShardedKindsAreCutAlongOneShard) {
  // 1024 rows over 4 ranks: 256 each. One of them stands for a row of every shard: 4 rows of n or k halves.
  for (const OpKind kind : {OpKind::MatmulReduceScatter, OpKind::MatmulAllToAll}) {
    const OpSpec scatter = sharded(kind, 1024);
    EXPECT_EQ(traits_of(kind).cut_axis_length(scatter), 256);
    EXPECT_EQ(traits_of(kind).message_bytes_per_row(scatter), 4 * 512 * 2);
    EXPECT_EQ(traits_of(kind).first_lane, Lane::Compute);
  }
  for (const OpKind kind : {OpKind::AllGatherMatmul, OpKind::AllToAllMatmul}) {
    const OpSpec gather = sharded(kind, 1024);
    EXPECT_EQ(traits_of(kind).cut_axis_length(gather), 256);
    EXPECT_EQ(traits_of(kind).message_bytes_per_row(gather), 4 * 128 * 2);
    EXPECT_EQ(traits_of(kind).first_lane, Lane::Communication);
    EXPECT_TRUE(traits_of(kind).has_local_part);
  }
}

TEST(OpRegistry, StoredNumbersOfKindsNeverChange) {
  EXPECT_EQ(static_cast<int>(OpKind::MatmulAllToAll), 4);
  EXPECT_EQ(static_cast<int>(OpKind::AllToAllMatmul), 5);
}

TEST(OpSpec, RowsThatTheRanksDoNotDivideAreRefusedWithTheNextLegalCount) {
  for (const OpKind kind :
       {OpKind::MatmulReduceScatter, OpKind::AllGatherMatmul, OpKind::MatmulAllToAll, OpKind::AllToAllMatmul}) {
    const auto verdict = sharded(kind, 1021).validate();
    ASSERT_FALSE(verdict);
    EXPECT_EQ(verdict.error().field, "m");
    EXPECT_NE(verdict.error().message.find("is 1021; " + std::string(to_string(kind))), std::string::npos);
    EXPECT_NE(verdict.error().message.find("multiple of the 4 ranks, e.g. 1024"), std::string::npos);
  }
  EXPECT_TRUE(sharded(OpKind::MatmulAllReduce, 1021).validate());
}

TEST(DType, NamesRoundTripAndUnknownOnesAreRefused) {
  EXPECT_EQ(parse_dtype("bf16").value(), DType::Bf16);
  EXPECT_EQ(parse_dtype("float").error().code, ErrorCode::UnknownName);
}

TEST(Fingerprint, DistinctFieldsHaveDistinctTexts) {
  const Fingerprint one{{{"a", "1; b=2"}}}, two{{{"a", "1"}, {"b", "2"}}};
  EXPECT_NE(one.canonical_text(), two.canonical_text());
}

TEST(Fingerprint, EmulationShowsInTheLabelAndNeverMatchesAReal) {
  Fingerprint real{{{"backend", "host"}, {"cpu_model", "x"}, {"link", "shm"}}};
  Fingerprint emulated = real;
  emulated.fields["emulation"] = "link 1Gbit";
  EXPECT_NE(real, emulated);
  EXPECT_NE(emulated.label().find("EMULATED"), std::string::npos);
  EXPECT_EQ(real.differences(emulated).size(), 1u);
}

} // namespace
} // namespace mc2::planner
