#include "stage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace mc2::executor::stage_test {
namespace {

using planner::Schedule;
using ::testing::HasSubstr;

planner::OpSpec op(std::int64_t m) {
  return {
      .kind = planner::OpKind::MatmulAllReduce, .m = m, .n = 4, .k = 2, .dtype = planner::DType::F32, .world_size = 2};
}

TEST(Lower, BlocksBecomeContiguousRunsOfRowsComputeFirst) {
  const auto list = lower(op(100), {{30, 30, 40}}, Schedule::Pipelined).value();
  EXPECT_EQ(list.op, op(100));
  EXPECT_EQ(list.first_lane, planner::Lane::Compute);
  EXPECT_EQ(list.stages, (std::vector<Stage>{{0, 30}, {30, 30}, {60, 40}}));
}

TEST(Lower, KindsWithShardsCutOneShardAndKeepTheirOrderOfLanes) {
  auto scatter = op(20);
  for (const auto kind : {planner::OpKind::MatmulReduceScatter, planner::OpKind::MatmulAllToAll}) {
    scatter.kind = kind; // a shard of each of 2 ranks has 10 rows
    EXPECT_EQ(lower(scatter, {{4, 6}}, Schedule::Pipelined).value().stages, (std::vector<Stage>{{0, 4}, {4, 6}}));
    EXPECT_EQ(lower(scatter, {{4, 6}}, Schedule::Pipelined).value().first_lane, planner::Lane::Compute);
    EXPECT_FALSE(lower(scatter, {{20}}, Schedule::Pipelined).ok());
  }
  for (const auto kind : {planner::OpKind::AllGatherMatmul, planner::OpKind::AllToAllMatmul}) {
    auto gather = op(20);
    gather.kind = kind;
    EXPECT_EQ(lower(gather, {{4, 6}}, Schedule::Pipelined).value().stages, (std::vector<Stage>{{0, 4}, {4, 6}}));
    EXPECT_EQ(lower(gather, {{4, 6}}, Schedule::Pipelined).value().first_lane, planner::Lane::Communication);
    gather.m = 21;
    EXPECT_EQ(lower(gather, {{10}}, Schedule::Pipelined).error().field, "m");
  }
}

TEST(Lower, BlocksOfFewRowsAreRunsOfColumns) {
  // An operator of 64 rows is cut along n = 4, one of 65 rows is not.
  EXPECT_EQ(lower(op(64), {{1, 3}}, Schedule::Pipelined).value().stages, (std::vector<Stage>{{0, 1}, {1, 3}}));
  EXPECT_THAT(lower(op(64), {{64}}, Schedule::Pipelined).error().text(), HasSubstr("4 columns"));
  EXPECT_THAT(lower(op(65), {{1, 3}}, Schedule::Pipelined).error().text(), HasSubstr("65"));
}

TEST(Lower, UncutIsOneStage) {
  EXPECT_EQ(lower(op(70), {{70}}, Schedule::Pipelined).value().stages, (std::vector<Stage>{{0, 70}}));
}

TEST(Lower, RefusesBlocksThatAreNotPositiveOrDoNotSum) {
  constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::vector<std::int64_t>> illegal{{},         {0, 70},        {-1, 71}, {3, 3},
                                                       {3, 3, 65}, {kHuge, kHuge}, {70, 1}};
  for (const auto& blocks : illegal) {
    const auto refused = lower(op(70), {blocks}, Schedule::Pipelined);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::InvalidSpec);
    EXPECT_THAT(refused.error().field, HasSubstr("blocks"));
  }
}

TEST(Lower, ASerialPlanHasOneStage) {
  EXPECT_EQ(lower(op(70), {{70}}, Schedule::Serial).value().schedule, Schedule::Serial);
  EXPECT_THAT(lower(op(70), {{35, 35}}, Schedule::Serial).error().text(), HasSubstr("blocks: are 2"));
}

TEST(Lower, AKindWithoutAnOwnShardDoesNotBeginWithIt) {
  EXPECT_EQ(lower(op(70), {{35, 35}}, Schedule::LocalFirst).value().schedule, Schedule::Pipelined);
  auto gather = op(20);
  gather.kind = planner::OpKind::AllGatherMatmul;
  EXPECT_EQ(lower(gather, {{4, 6}}, Schedule::LocalFirst).value().schedule, Schedule::LocalFirst);
}

TEST(Lower, RefusesIllegalOperators) { EXPECT_EQ(lower(op(0), {{}}, Schedule::Pipelined).error().field, "m"); }

} // namespace
} // namespace mc2::executor::stage_test
