#include "mc2/planner/op_spec.hpp"

#include <gtest/gtest.h>

#include "mc2/planner/fingerprint.hpp"
#include "support/models.hpp"

namespace mc2::planner::op_spec_test {
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

TEST(OpRegistry, TraitsOfAKindFitOneAnother) {
  for (const OpTraits& traits : op_registry()) {
    SCOPED_TRACE(traits.name);
    EXPECT_TRUE(!traits.gathers_a || traits.collective == Collective::AllGather);
    EXPECT_TRUE(traits.communicates_first() || !(traits.gathers_a || traits.has_local_part));
    EXPECT_FALSE(traits.communicates_first() && traits.sums());
    EXPECT_TRUE(!traits.takes_counts || traits.collective == Collective::AllToAll);
    EXPECT_TRUE(!traits.takes_counts || traits.work == Work::Matmul);
    EXPECT_TRUE(!traits.lands_side_by_side || (traits.moves_products() && traits.has_row_shards));
    EXPECT_FALSE(traits.max_column_cut_m > 0 && traits.has_row_shards);
  }
}

TEST(OpRegistry, KindsWithATraitAreListedForMessages) {
  EXPECT_EQ(kinds_with([](const OpTraits& traits) { return traits.gathers_a; }),
            "all_gather_matmul and all_gather_grouped_matmul");
  EXPECT_EQ(kinds_with([](const OpTraits& traits) { return traits.takes_counts; }),
            "matmul_all_to_all and all_to_all_matmul");
  EXPECT_EQ(kinds_with([](const OpTraits& traits) { return traits.moves_products() || traits.gathers_a; }),
            "all_gather_matmul, matmul_all_to_all, embedding_all_to_all and all_gather_grouped_matmul");
  EXPECT_EQ(kinds_with([](const OpTraits&) { return false; }), "");
}

TEST(OpRegistry, AllReduceMessageIsTheProduct) {
  // One row of the product: 1024 columns of 4 bytes.
  EXPECT_EQ(traits_of(OpKind::MatmulAllReduce).message_bytes_per_unit(legal()), 4096);
}

OpSpec sharded(OpKind kind, std::int64_t m) { return {kind, m, 512, 128, DType::F16, 4}; }

TEST(OpRegistry, RowShardedKindsAreCutAlongOneShard) {
  // 4 ranks hold 256 of 1024 rows each. A row of the cut axis stands for one row of every shard: 4 rows of n or of k
  // f16 elements.
  for (const OpKind kind : {OpKind::MatmulReduceScatter, OpKind::MatmulAllToAll}) {
    const OpSpec scatter = sharded(kind, 1024);
    EXPECT_EQ(traits_of(kind).cut_axis_length(scatter), 256);
    EXPECT_EQ(cut_axis_text(scatter), "rows of each rank's m / ranks");
    EXPECT_EQ(traits_of(kind).message_bytes_per_unit(scatter), 4 * 512 * 2);
    EXPECT_EQ(traits_of(kind).first_lane, Lane::Compute);
  }
  for (const OpKind kind : {OpKind::AllGatherMatmul, OpKind::AllToAllMatmul}) {
    const OpSpec gather = sharded(kind, 1024);
    EXPECT_EQ(traits_of(kind).cut_axis_length(gather), 256);
    EXPECT_EQ(traits_of(kind).message_bytes_per_unit(gather), 4 * 128 * 2);
    EXPECT_EQ(traits_of(kind).first_lane, Lane::Communication);
    EXPECT_TRUE(traits_of(kind).has_local_part);
  }
}

TEST(OpRegistry, StoredNumbersOfKindsNeverChange) {
  EXPECT_EQ(static_cast<int>(OpKind::MatmulAllToAll), 4);
  EXPECT_EQ(static_cast<int>(OpKind::AllToAllMatmul), 5);
  EXPECT_EQ(static_cast<int>(OpKind::EmbeddingAllToAll), 6);
  EXPECT_EQ(static_cast<int>(OpKind::AllGatherGroupedMatmul), 7);
  EXPECT_EQ(static_cast<int>(OpKind::GroupedMatmulReduceScatter), 8);
  EXPECT_EQ(static_cast<int>(OpKind::GroupedMatmulAllReduce), 9);
  EXPECT_EQ(static_cast<int>(Pooling::Sum), 1);
  EXPECT_EQ(static_cast<int>(Pooling::Mean), 2);
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

TEST(OpSpec, SeveralExpertsAreThoseOfAllToAllKindsAndShareTheRowsEqually) {
  for (const OpKind kind : {OpKind::MatmulAllToAll, OpKind::AllToAllMatmul}) {
    OpSpec op = sharded(kind, 1024);
    op.experts_per_rank = 8;
    EXPECT_TRUE(op.validate());
    EXPECT_EQ(m_step(op), 32);
    EXPECT_NE(op.text().find(" x4 experts=8/rank"), std::string::npos);
    op.m = 1028;
    EXPECT_EQ(op.validate().error().field, "m");
    EXPECT_NE(op.validate().error().message.find("a multiple of all 32 experts, e.g. 1056"), std::string::npos);
    op.experts_per_rank = 0;
    EXPECT_EQ(op.validate().error().field, "experts_per_rank");
  }
  OpSpec op = sharded(OpKind::AllGatherMatmul, 1024);
  op.experts_per_rank = 2;
  EXPECT_EQ(op.validate().error().field, "experts_per_rank");
  EXPECT_NE(op.validate().error().message.find("all_to_all_matmul have experts, not all_gather_matmul"),
            std::string::npos);
}

/// 4 tables of 100 rows on each of 4 ranks, 16 features a table, 20 rows in a bag.
OpSpec pooled() {
  OpSpec op{OpKind::EmbeddingAllToAll, 1024, 64, 20, DType::F16, 4};
  op.tables = {.table_count = 4, .row_count = 100, .pooling = Pooling::Mean};
  return op;
}

TEST(OpSpec, EmbeddingBagsAreCutAlongOneRanksSamplesAndSendPooledFeatures) {
  ASSERT_TRUE(pooled().validate());
  const OpTraits& traits = traits_of(OpKind::EmbeddingAllToAll);
  EXPECT_EQ(traits.cut_axis_length(pooled()), 256);
  EXPECT_EQ(traits.message_bytes_per_unit(pooled()), 4 * 64 * 2); // one sample of each of 4 ranks' shares, in halves
  EXPECT_EQ(traits.first_lane, Lane::Compute);
  EXPECT_DOUBLE_EQ(pooled().flop_count(), 1024.0 * 64 * 20); // additions only
  EXPECT_DOUBLE_EQ(pooled().flop_count(10), 10.0 * 64 * 20);
  EXPECT_EQ(pooled().text(), "embedding_all_to_all m=1024 n=64 k=20 f16 x4 tables=4x100 mean");
}

TEST(OpSpec, TablesBelongToEmbeddingAllToAllAlone) {
  OpSpec without = pooled();
  without.tables.reset();
  EXPECT_EQ(without.validate().error().field, "tables");
  OpSpec with = legal();
  with.tables = pooled().tables;
  EXPECT_EQ(with.validate().error().field, "tables");
  EXPECT_NE(with.validate().error().message.find("not matmul_all_reduce"), std::string::npos);
}

TEST(OpSpec, EmbeddingBagsHaveNoEpilogueAndNoScales) {
  OpSpec op = pooled();
  op.epilogue.has_bias = true;
  EXPECT_EQ(op.validate().error().field, "epilogue");
  op = pooled();
  for (const DType dtype : {DType::I8, DType::F8E4m3}) {
    op.dtype = dtype;
    EXPECT_EQ(op.validate().error().field, "dtype");
  }
}

TEST(OpSpec, IllegalTablesAreRefusedByName) {
  OpSpec op = pooled();
  op.n = 65;
  EXPECT_EQ(op.validate().error().field, "n");
  EXPECT_NE(op.validate().error().message.find("multiple of 4, e.g. 68"), std::string::npos);
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{-4}, kMaxSize + 1}) {
    op = pooled();
    op.tables->table_count = count;
    EXPECT_EQ(op.validate().error().field, "tables");
    op = pooled();
    op.tables->row_count = count;
    EXPECT_EQ(op.validate().error().field, "table_rows");
  }
  op = pooled();
  op.tables->row_count = kMaxSize; // 1e9 rows of n = 1e9 / 4 f16 elements
  op.n = kMaxSize / 4 * 4;
  EXPECT_NE(op.validate().error().message.find("a rank's tables"), std::string::npos);
  op = pooled();
  op.m = op.k = kMaxSize; // 1e9 x 1e9 row numbers for each of 4 tables
  EXPECT_NE(op.validate().error().message.find("row numbers"), std::string::npos);
}

TEST(Pooling, NamesRoundTripAndUnknownOnesAreRefused) {
  EXPECT_EQ(parse_pooling(to_string(Pooling::Mean)).value(), Pooling::Mean);
  EXPECT_EQ(parse_pooling("max").error().code, ErrorCode::UnknownName);
}

TEST(CutAxis, FewRowsOfAllReduceAreCutAlongN) {
  OpSpec op{OpKind::MatmulAllReduce, 64, 512, 128, DType::Bf16, 4};
  const OpTraits& traits = traits_of(op.kind);
  EXPECT_EQ(cut_axis(op), CutAxis::Columns);
  EXPECT_EQ(cut_axis_text(op), "columns");
  EXPECT_EQ(traits.cut_axis_length(op), 512);
  EXPECT_EQ(traits.message_bytes_per_unit(op), 64 * 2); // one column of the product
  op.m = 65;
  EXPECT_EQ(cut_axis(op), CutAxis::Rows);
  EXPECT_EQ(traits.cut_axis_length(op), 65);
  EXPECT_EQ(traits.message_bytes_per_unit(op), 512 * 2);
  for (const OpTraits& other : op_registry())
    EXPECT_EQ(cut_axis({other.kind, 8, 8, 8, DType::F32, 2}) == CutAxis::Columns,
              other.kind == OpKind::MatmulAllReduce);
}

TEST(HasSameBlockCosts, LetsOnlyTheLengthOfTheCutAxisDiffer) {
  const OpSpec rows{OpKind::MatmulAllReduce, 4096, 512, 128, DType::F32, 2};
  const auto with = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return OpSpec{rows.kind, m, n, k, rows.dtype, rows.world_size};
  };
  EXPECT_TRUE(has_same_block_costs(rows, with(65, 512, 128)));
  EXPECT_FALSE(has_same_block_costs(rows, with(64, 512, 128))); // up to 64 rows are cut by columns
  EXPECT_FALSE(has_same_block_costs(rows, with(4096, 513, 128)));
  EXPECT_TRUE(has_same_block_costs(with(16, 512, 128), with(16, 9999, 128)));
  EXPECT_FALSE(has_same_block_costs(with(16, 512, 128), with(17, 512, 128)));
  EXPECT_FALSE(has_same_block_costs(with(16, 512, 128), with(16, 512, 129)));
  OpSpec biased = rows;
  biased.epilogue.has_bias = true;
  EXPECT_FALSE(has_same_block_costs(rows, biased));
}

TEST(OpSpec, OnlySumsAreNormalised) {
  for (const OpTraits& traits : op_registry()) {
    OpSpec op = legal();
    op.kind = traits.kind;
    if (traits.work == Work::Pooling) continue;
    if (traits.work == Work::GroupedMatmul) op.experts = {.count = 8, .top_k = 2};
    op.epilogue.norm = Norm::Rms;
    const auto checked = op.validate();
    EXPECT_EQ(checked ? "" : checked.error().field, traits.sums() ? "" : "norm");
  }
}

OpSpec grouped(OpKind kind) {
  OpSpec op{kind, 1024, 64, 32, DType::F16, 4};
  op.experts = {.count = 8, .top_k = 2};
  return op;
}

TEST(OpSpec, GroupedMatmulsCountEveryChoice) {
  for (const OpKind kind : {OpKind::AllGatherGroupedMatmul, OpKind::GroupedMatmulReduceScatter}) {
    const OpSpec op = grouped(kind);
    ASSERT_TRUE(op.validate()) << op.validate().error().text();
    EXPECT_DOUBLE_EQ(op.flop_count(), 2.0 * 1024 * 2 * 64 * 32);
    EXPECT_EQ(matrix_count(op), 8);
    EXPECT_EQ(products_per_row(op), 2);
    EXPECT_EQ(traits_of(kind).cut_axis_length(op), 256);
    EXPECT_EQ(op.text(), std::string(to_string(kind)) + " m=1024 n=64 k=32 f16 x4 experts=8 top_k=2");
  }
  OpSpec all = grouped(OpKind::GroupedMatmulAllReduce);
  all.m = 1021; // a prime, which the ranks need not divide
  EXPECT_TRUE(all.validate()) << all.validate().error().text();
  EXPECT_EQ(traits_of(all.kind).cut_axis_length(all), 1021);
  EXPECT_EQ(traits_of(all.kind).message_bytes_per_unit(all), 64 * 2);
  // A token travels once, however many experts it chooses: 4 ranks' rows of k, or of n, f16 elements.
  EXPECT_EQ(traits_of(OpKind::AllGatherGroupedMatmul).message_bytes_per_unit(grouped(OpKind::AllGatherGroupedMatmul)),
            4 * 32 * 2);
  EXPECT_EQ(
      traits_of(OpKind::GroupedMatmulReduceScatter).message_bytes_per_unit(grouped(OpKind::GroupedMatmulReduceScatter)),
      4 * 64 * 2);
}

TEST(OpSpec, RefusesExpertsThatFitNothing) {
  const auto field_of = [](const OpSpec& op) {
    const auto checked = op.validate();
    return checked ? std::string() : checked.error().field;
  };
  OpSpec op = grouped(OpKind::GroupedMatmulReduceScatter);
  op.experts->top_k = 9; // there are 8 experts
  EXPECT_EQ(field_of(op), "top_k");
  op.experts = {.count = 1000, .top_k = 65};
  EXPECT_EQ(field_of(op), "top_k");
  op.experts = {.count = 0, .top_k = 1};
  EXPECT_EQ(field_of(op), "experts");
  op.experts.reset();
  EXPECT_EQ(field_of(op), "experts");
  op = legal();
  op.experts = {.count = 8, .top_k = 2};
  EXPECT_EQ(field_of(op), "experts");
  op = grouped(OpKind::GroupedMatmulReduceScatter);
  op.dtype = DType::I8;
  EXPECT_EQ(field_of(op), "dtype");
  op = grouped(OpKind::AllGatherGroupedMatmul);
  op.epilogue.has_residual = true;
  EXPECT_EQ(field_of(op), "epilogue");
  op.kind = OpKind::GroupedMatmulReduceScatter;
  EXPECT_EQ(field_of(op), "");
  op.experts = {.count = kMaxSize, .top_k = 64};
  op.m = op.n = op.k = kMaxSize;
  EXPECT_FALSE(op.validate());
}

TEST(Epilogue, NamesRoundTripAndShowInTheText) {
  for (const bool has_bias : {false, true})
    for (const bool has_residual : {false, true})
      for (const Norm norm : {Norm::None, Norm::Rms}) {
        const Epilogue epilogue{has_bias, has_residual, norm};
        EXPECT_EQ(parse_epilogue(to_string(epilogue)).value(), epilogue);
      }
  EXPECT_EQ(parse_epilogue("gelu").error().code, ErrorCode::UnknownName);
  OpSpec op{OpKind::MatmulAllReduce, 128, 64, 32, DType::F32, 2};
  EXPECT_EQ(op.text(), "matmul_all_reduce m=128 n=64 k=32 f32 x2");
  op.epilogue = {true, true};
  EXPECT_EQ(op.text(), "matmul_all_reduce m=128 n=64 k=32 f32 x2 bias+residual");
}

TEST(ProductType, IsBf16WhereElementsHaveScalesAndDecidesWhatIsExchanged) {
  // 4 ranks, n = 512, k = 128: a row of the cut axis moves 4 rows of the product in bf16, or 4 rows of A in i8.
  OpSpec op{OpKind::MatmulReduceScatter, 1024, 512, 128, DType::I8, 4};
  EXPECT_EQ(product_type(op), DType::Bf16);
  EXPECT_EQ(exchange_type(op), DType::Bf16);
  EXPECT_EQ(traits_of(op.kind).message_bytes_per_unit(op), 4 * 512 * 2);
  op.kind = OpKind::AllGatherMatmul;
  EXPECT_EQ(exchange_type(op), DType::I8);
  EXPECT_EQ(traits_of(op.kind).message_bytes_per_unit(op), 4 * 128);
  op.dtype = DType::F8E4m3;
  EXPECT_EQ(product_type(op), DType::Bf16);
  EXPECT_EQ(exchange_type(op), DType::F8E4m3);
  EXPECT_EQ(traits_of(op.kind).message_bytes_per_unit(op), 4 * 128);
  op.dtype = DType::F16;
  EXPECT_EQ(product_type(op), DType::F16);
}

TEST(OpSpec, SumsOfI8ProductsKeepTo32Bits) {
  // The largest sum is k * 128 * 128. For k = 131071 it is 2^31 - 2^14, which fits; for 131072 it is 2^31.
  OpSpec op{OpKind::MatmulAllReduce, 128, 8, 131071, DType::I8, 2};
  EXPECT_TRUE(op.validate());
  op.k = 131072;
  ASSERT_FALSE(op.validate());
  EXPECT_EQ(op.validate().error().field, "k");
  op.dtype = DType::F32;
  EXPECT_TRUE(op.validate());
}

TEST(DType, StoredNumbersNeverChange) {
  EXPECT_EQ(static_cast<int>(DType::Bf16), 3);
  EXPECT_EQ(static_cast<int>(DType::I8), 4);
  EXPECT_EQ(size_bytes(DType::I8), 1);
  EXPECT_EQ(parse_dtype("i8").value(), DType::I8);
  EXPECT_EQ(static_cast<int>(DType::F8E4m3), 5);
  EXPECT_EQ(size_bytes(DType::F8E4m3), 1);
  EXPECT_EQ(parse_dtype("f8e4m3").value(), DType::F8E4m3);
}

TEST(DType, NamesRoundTripAndUnknownOnesAreRefused) {
  EXPECT_EQ(parse_dtype("bf16").value(), DType::Bf16);
  EXPECT_EQ(parse_dtype("float").error().code, ErrorCode::UnknownName);
}

TEST(Fingerprint, DistinctFieldsHaveDistinctTexts) {
  const Fingerprint one{{{"a", "1; b=2"}}}, two{{{"a", "1"}, {"b", "2"}}};
  EXPECT_NE(one.canonical_text(), two.canonical_text());
}

TEST(Fingerprint, ItsBackendTellsWhetherItIsElsewhere) {
  const Fingerprint published{{{"backend", "published"}, {"device", "x"}}}, imported{{{"backend", "imported"}}},
      host{{{"backend", "host"}}};
  EXPECT_EQ(published.field("device"), "x");
  EXPECT_EQ(published.field("link"), "");
  EXPECT_TRUE(published.is_elsewhere());
  EXPECT_TRUE(imported.is_elsewhere());
  EXPECT_FALSE(host.is_elsewhere());
  EXPECT_FALSE(Fingerprint().is_elsewhere());
}

TEST(Fingerprint, NothingIsTimedOnASharedDevice) {
  Fingerprint machine{{{"backend", "cuda"}, {"gpu_model", "NVIDIA H200"}, {"link", "shared device"}}};
  EXPECT_TRUE(machine.require_speeds());
  machine.fields["ranks_per_device"] = "4";
  EXPECT_EQ(machine.label(), "cuda on NVIDIA H200, link shared device [SHARED DEVICE: by 4 ranks]");
  const auto refused = machine.require_speeds();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  EXPECT_EQ(refused.error().field, "ranks_per_device");
}

TEST(Fingerprint, EmulationShowsInTheLabelAndNeverMatchesAReal) {
  Fingerprint real{{{"backend", "host"}, {"cpu_model", "x"}, {"link", "shm"}}};
  Fingerprint emulated = real;
  emulated.fields["emulation"] = "link 1Gbit";
  EXPECT_NE(real, emulated);
  EXPECT_NE(emulated.label().find("EMULATED"), std::string::npos);
  EXPECT_EQ(real.differences(emulated).size(), 1u);
}

TEST(Fingerprint, TheLabelSaysWhereLanesAreNotPinned) {
  Fingerprint machine{{{"backend", "host"}, {"cpu_model", "x"}, {"link", "shm"}, {"pinning", "shared"}}};
  EXPECT_EQ(machine.label(), "host on x, link shm");
  machine.fields["pinning"] = "none";
  EXPECT_EQ(machine.label(), "host on x, link shm, not pinned");
  machine.fields["nodes"] = "2";
  EXPECT_EQ(machine.label(), "host on x, link shm, 2 nodes, not pinned");
}

} // namespace
} // namespace mc2::planner::op_spec_test
