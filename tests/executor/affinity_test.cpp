#include "lanes/affinity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::executor::lanes::affinity_test {
namespace {

using planner::Lane;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> share(const std::vector<std::vector<int>>& cores, std::size_t own) {
  const CoreShare found = share_of_cores(cores, own);
  return {found.process_count, found.place, found.overlaps ? 1 : 0};
}

TEST(CoreShare, CountsTheProcessesThatMayUseTheSameCores) {
  const std::vector<int> first{0, 1, 2, 3}, second{4, 5, 6, 7};
  const std::vector<std::vector<int>> by_socket{first, second, first, second};
  EXPECT_EQ(share(by_socket, 0), (std::vector<int>{2, 0, 0}));
  EXPECT_EQ(share(by_socket, 2), (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(share(by_socket, 3), (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(share({{0}, {1}, {2}}, 1), (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(share({first, first, first}, 2), (std::vector<int>{3, 2, 0}));
}

TEST(CoreShare, TellsCoresThatOverlap) {
  EXPECT_EQ(share({{0, 1}, {1, 2}, {3}}, 0), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(share({{0, 1}, {1, 2}, {3}}, 2), (std::vector<int>{1, 0, 0}));
}

TEST(CoreLayout, SeparatesTheLanesWithTwoCoresPerRankOrMore) {
  const CoreLayout layout({0, 1, 2, 3, 8, 9, 10}, 2, true);
  EXPECT_EQ(layout.pinning(), Pinning::Separate);
  EXPECT_EQ(layout.compute_thread_count(), 2);
  EXPECT_THAT(layout.cores_of(0, Lane::Compute), ElementsAre(0, 1));
  EXPECT_THAT(layout.cores_of(0, Lane::Communication), ElementsAre(2));
  EXPECT_THAT(layout.cores_of(1, Lane::Compute), ElementsAre(3, 8));
  EXPECT_THAT(layout.cores_of(1, Lane::Communication), ElementsAre(9));
}

TEST(CoreLayout, SharesTheRanksCoreWithOneCorePerRank) {
  const CoreLayout layout({4, 5, 6}, 2, true);
  EXPECT_EQ(layout.pinning(), Pinning::Shared);
  EXPECT_EQ(layout.compute_thread_count(), 1);
  EXPECT_THAT(layout.cores_of(1, Lane::Compute), ElementsAre(5));
  EXPECT_THAT(layout.cores_of(1, Lane::Communication), ElementsAre(5));
}

TEST(CoreLayout, LeavesPlacementToTheSchedulerWithFewerCoresThanRanks) {
  const CoreLayout layout({0, 1}, 3, true);
  EXPECT_EQ(layout.pinning(), Pinning::None);
  EXPECT_EQ(layout.compute_thread_count(), 1);
  EXPECT_THAT(layout.cores_of(0, Lane::Compute), IsEmpty());
}

TEST(CoreLayout, KeepsTheThreadCountWhenPinningIsOff) {
  const CoreLayout layout({0, 1, 2, 3, 4, 5}, 2, false);
  EXPECT_EQ(layout.pinning(), Pinning::None);
  EXPECT_EQ(layout.compute_thread_count(), 2);
  EXPECT_THAT(layout.cores_of(1, Lane::Communication), IsEmpty());
}

TEST(AllowedCores, HasAtLeastOne) { EXPECT_FALSE(allowed_cores().empty()); }

} // namespace
} // namespace mc2::executor::lanes::affinity_test
