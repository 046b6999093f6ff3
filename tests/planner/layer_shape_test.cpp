#include "mc2/planner/layer_shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::planner::layer_shape_test {
namespace {

using ::testing::HasSubstr;

const LayerShape kQkv{.model = "Toy",
                      .layer = "attention_qkv",
                      .parallelism = Parallelism::Column,
                      .n = 1536, // 8 heads of queries, 2 of keys and 2 of values, of 128 columns each
                      .k = 1024,
                      .units = 8,
                      .shared = SharedColumns{512, 2}};

std::int64_t columns_at(int ranks) { return kQkv.op(OpKind::AllGatherMatmul, 64, ranks).value().n; }

TEST(LayerShape, RanksHoldAKeyValueHeadTogetherWhereThereAreMoreRanksThanHeads) {
  EXPECT_EQ(columns_at(2), 4 * 128 + 2 * 128); // each rank has one key head and one value head
  EXPECT_EQ(columns_at(4), 2 * 128 + 2 * 128); // two ranks have the same key head and value head
  EXPECT_EQ(columns_at(8), 1 * 128 + 2 * 128);
}

TEST(LayerShape, RefusesRanksThatWouldBreakAHead) {
  const auto of_heads = kQkv.op(OpKind::AllGatherMatmul, 48, 16);
  EXPECT_EQ(of_heads.error().code, ErrorCode::Infeasible);
  EXPECT_THAT(of_heads.error().text(),
              HasSubstr("16 ranks do not divide n = 1024 of queries into whole parts, of which it has 8"));
  LayerShape three = kQkv; // 6 heads of queries, 4 of keys and 4 of values
  three.n = 6 * 128 + 1024;
  three.units = 6;
  three.shared = SharedColumns{1024, 4};
  EXPECT_THAT(three.op(OpKind::AllGatherMatmul, 48, 3).error().text(), HasSubstr("neither divide the 4 parts"));
}

TEST(LayerShape, HasAsManyExpertsOnEveryRank) {
  const LayerShape expert{.model = "Toy",
                          .layer = "expert_down",
                          .parallelism = Parallelism::Combine,
                          .n = 1024,
                          .k = 512,
                          .experts = ExpertCount{8, 2}};
  EXPECT_EQ(expert.op(OpKind::MatmulAllToAll, 64, 8).value().n, 1024);
  EXPECT_EQ(expert.op(OpKind::MatmulAllToAll, 64, 8).value().experts_per_rank, 1);
  EXPECT_EQ(expert.op(OpKind::MatmulAllToAll, 64, 4).value().experts_per_rank, 2);
  EXPECT_THAT(expert.op(OpKind::MatmulAllToAll, 64, 3).error().text(), HasSubstr("8 experts on 3 ranks"));
  // 1000 tokens go to 2 of 8 experts each, so 250 rows reach an expert. 8 ranks share them as 8 x 32.
  EXPECT_EQ(expert.rows_of(1000, OpKind::MatmulAllToAll, 8), 256);
  EXPECT_EQ(expert.rows_of(1000, OpKind::MatmulAllToAll, 2), 1000);
  EXPECT_EQ(expert.rows_of(1001, OpKind::MatmulAllToAll, 2), 1008); // rounded up to a multiple of 8 experts
}

TEST(LayerShape, RowsAreTokensThatTheRanksCanShare) {
  EXPECT_EQ(kQkv.rows_of(13, OpKind::MatmulAllReduce, 4), 13);
  EXPECT_EQ(kQkv.rows_of(13, OpKind::AllGatherMatmul, 4), 16);
}

TEST(LayerShape, ParallelismsHaveNames) {
  for (const auto parallelism : {Parallelism::Row, Parallelism::Column, Parallelism::Dispatch, Parallelism::Combine})
    EXPECT_EQ(parse_parallelism(to_string(parallelism)).value(), parallelism);
  EXPECT_THAT(parse_parallelism("diagonal").error().text(), HasSubstr("legal: row, column, dispatch, combine"));
}

} // namespace
} // namespace mc2::planner::layer_shape_test
