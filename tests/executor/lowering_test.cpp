#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "mc2/executor/stage.hpp"

namespace mc2::executor {
namespace {

using planner::ErrorCode;
using ::testing::HasSubstr;

planner::OpSpec op(std::int64_t m) {
  return {.kind = planner::OpKind::MatmulAllReduce,
          .m = m,
          .n = 4,
          .k = 2,
          .dtype = planner::DType::F32,
          .world_size = 2};
}

TEST(Lower, BlocksBecomeContiguousRunsOfRowsComputeFirst) {
  const auto list = lower(op(10), {{3, 3, 4}}).value();
  EXPECT_EQ(list.op, op(10));
  EXPECT_EQ(list.first_lane, planner::Lane::Compute);
  EXPECT_EQ(list.stages, (std::vector<Stage>{{0, 3}, {3, 3}, {6, 4}}));
}

TEST(Lower, KindsWithShardsCutOneShardAndKeepTheirOrderOfLanes) {
  auto scatter = op(20);
  for (const auto kind : {planner::OpKind::MatmulReduceScatter, planner::OpKind::MatmulAllToAll}) {
    scatter.kind = kind; // 2 ranks: 10 rows each
    EXPECT_EQ(lower(scatter, {{4, 6}}).value().stages, (std::vector<Stage>{{0, 4}, {4, 6}}));
    EXPECT_EQ(lower(scatter, {{4, 6}}).value().first_lane, planner::Lane::Compute);
    EXPECT_FALSE(lower(scatter, {{20}}).ok());
  }
  for (const auto kind : {planner::OpKind::AllGatherMatmul, planner::OpKind::AllToAllMatmul}) {
    auto gather = op(20);
    gather.kind = kind;
    EXPECT_EQ(lower(gather, {{4, 6}}).value().stages, (std::vector<Stage>{{0, 4}, {4, 6}}));
    EXPECT_EQ(lower(gather, {{4, 6}}).value().first_lane, planner::Lane::Communication);
    gather.m = 21;
    EXPECT_EQ(lower(gather, {{10}}).error().field, "m");
  }
}

TEST(Lower, UncutIsOneStage) { EXPECT_EQ(lower(op(10), {{10}}).value().stages, (std::vector<Stage>{{0, 10}})); }

TEST(Lower, RefusesBlocksThatAreNotPositiveOrDoNotSum) {
  constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::vector<std::int64_t>> illegal{{},        {0, 10},        {-1, 11}, {3, 3},
                                                       {3, 3, 5}, {kHuge, kHuge}, {10, 1}};
  for (const auto& blocks : illegal) {
    const auto refused = lower(op(10), {blocks});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
    EXPECT_THAT(refused.error().field, HasSubstr("blocks"));
  }
  EXPECT_EQ(lower(op(10), {{3, 0, 7}}).error().field, "blocks[1]");
}

TEST(Lower, RefusesIllegalOperators) { EXPECT_EQ(lower(op(0), {{}}).error().field, "m"); }

} // namespace
} // namespace mc2::executor
