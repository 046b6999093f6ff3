#include "mc2/executor/block_times.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace mc2::executor::block_times_test {
namespace {

using planner::Component;
using std::chrono::microseconds;

/// The stages of a lane whose blocks take `block_us` each, one directly after the other.
std::vector<StageTime> lane(int block_count, int block_us) {
  std::vector<StageTime> stages;
  for (int i = 0; i < block_count; ++i)
    stages.push_back({microseconds(i * block_us), microseconds((i + 1) * block_us)});
  return stages;
}

RunRecord record(int compute_us, int communication_us) {
  RunRecord result;
  for (int rank : {0, 1}) result.ranks.push_back({rank, lane(3, compute_us + rank), lane(3, communication_us), {}});
  return result;
}

TEST(BlockTimes, MeanIsOfTheSlowestRank) {
  const BlockTime time = mean_block(record(10, 4), Component::Matmul, 3);
  EXPECT_DOUBLE_EQ(time.block_us, 11); // rank 1: 33 us / 3
  EXPECT_EQ(time.rank, 1);
  EXPECT_EQ(time.block_count, 3);
  EXPECT_DOUBLE_EQ(mean_block(record(10, 4), Component::Collective, 3).block_us, 4);
}

TEST(BlockTimes, BlocksThatTookNoTimeByTheClockAreBlocks) {
  RunRecord run;
  run.ranks.push_back({0, lane(3, 10), lane(3, 0), {}});
  const BlockTime time = mean_block(run, Component::Collective, 3);
  EXPECT_EQ(time.block_us, 0);
  EXPECT_EQ(time.block_count, 3);
  const BlockTime beside = contended_block(run, Component::Collective, 3, time);
  EXPECT_EQ(beside.block_us, 0);
  EXPECT_EQ(beside.block_count, 3);
}

TEST(BlockTimes, ARunTakesWhatItsLaneDoesNot) {
  RunRecord run = record(10, 4); // the matmul lane of rank 1 takes 33 us, the other lanes 12 us
  run.makespan = microseconds(33);
  run.wall = microseconds(75);
  EXPECT_EQ(start_time(run, Component::Matmul), microseconds(42));
  EXPECT_EQ(start_time(run, Component::Collective), microseconds(63));
  for (RankTimes& rank : run.ranks) { // an own shard before the blocks belongs to the lane
    for (StageTime& block : rank.compute) block = {block.start + microseconds(9), block.end + microseconds(9)};
    rank.local = {microseconds(1), microseconds(9)};
  }
  EXPECT_EQ(start_time(run, Component::Matmul), microseconds(75 - 41));
  run.wall = run.makespan; // by a device's clock
  EXPECT_EQ(start_time(run, Component::Matmul), microseconds(0));
}

TEST(BlockTimes, WhatLiesBetweenBlocksIsTheirHandOver) {
  RunRecord gaps;
  gaps.ranks.push_back({0, {{microseconds(0), microseconds(5)}, {microseconds(7), microseconds(12)}}, {}, {}});
  const BlockTime time = mean_block(gaps, Component::Matmul, 2);
  EXPECT_DOUBLE_EQ(time.block_us, 6); // 5 + 2 + 5 over 2 blocks
  EXPECT_DOUBLE_EQ(time.hand_over_us.value(), 2);
  // A single block and a rest: the hand-over to the rest is measured as well.
  EXPECT_DOUBLE_EQ(mean_block(gaps, Component::Matmul, 1).hand_over_us.value(), 2);
  gaps.ranks[0].compute.pop_back();
  EXPECT_FALSE(mean_block(gaps, Component::Matmul, 1).hand_over_us.has_value());
}

TEST(BlockTimes, ABlockUnderContentionIsSlowerByTheSharedPart) {
  // A block takes 10 us alone. Three blocks take 20 us each while the other lane works all the time: 60 us for 30 us of
  // work, a slow-down of 2.
  const BlockTime alone{10, 0, 3, 0};
  RunRecord both;
  both.ranks.push_back({0, lane(3, 20), lane(3, 30), {}});
  EXPECT_DOUBLE_EQ(contended_block(both, Component::Matmul, 3, alone).block_us, 20);
}

TEST(BlockTimes, ALaneOfWhichTheOtherDoesAPartTakesThatShareOfWhatItTakesAlone) {
  // A block takes 10 us alone. Three blocks take 6 us each, although the other lane ends soon after the first.
  const BlockTime alone{10, 0, 3, 0};
  RunRecord both;
  both.ranks.push_back({0, lane(1, 7), lane(3, 6), {}});
  EXPECT_NEAR(contended_block(both, Component::Collective, 3, alone).block_us, 6, 1e-9);
}

TEST(BlockTimes, ALaneThatTheOtherLeavesEarlyIsJudgedByWhatItShared) {
  // The other lane ends at 30 us, so the first two blocks overlap it for 20 and 10 of their 20 us. Their 20 us of work
  // took 40 us, of which 10 us were alone. The other 10 us of work took 30 shared us, a slow-down of 3.
  const BlockTime alone{10, 0, 3, 0};
  RunRecord both;
  both.ranks.push_back({0, lane(3, 20), lane(3, 10), {}});
  EXPECT_DOUBLE_EQ(contended_block(both, Component::Matmul, 3, alone).block_us, 30);
}

} // namespace
} // namespace mc2::executor::block_times_test
