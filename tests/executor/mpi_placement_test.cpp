#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/mpi/placement.hpp"

namespace mc2::testing {
namespace {

using executor::mpi::Placement;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Placement, CountsNodesFromTheirFirstRank) {
  const Placement nodes({7, 3, 7, 3, 5});
  EXPECT_EQ(nodes.text(), "0,1,0,1,2");
  EXPECT_EQ(nodes.node_count(), 3);
  EXPECT_THAT(nodes.ranks_of(1), ElementsAre(1, 3));
  EXPECT_EQ(nodes.place_of(3), 1);
  EXPECT_EQ(nodes.size_of(2), 1);
  EXPECT_EQ(nodes.largest_node_size(), 2);
  EXPECT_TRUE(nodes.is_hierarchy());
}

TEST(Placement, OneNodeOrOneRankEachIsNoHierarchy) {
  EXPECT_FALSE(Placement({0, 0, 0}).is_hierarchy());
  EXPECT_FALSE(Placement({0, 1, 2}).is_hierarchy());
}

TEST(Placement, RanksOfASmallerNodeStandForSeveral) {
  const Placement nodes({0, 0, 0, 1, 1});
  EXPECT_EQ(nodes.partner_of(0, 1), 3);
  EXPECT_EQ(nodes.partner_of(1, 1), 4);
  EXPECT_EQ(nodes.partner_of(2, 1), 3);
  EXPECT_EQ(nodes.partner_of(4, 0), 1);
}

TEST(Placement, ReadsOneNumberForEachRank) {
  EXPECT_EQ(Placement::parse("4,4,2", 3).value().text(), "0,0,1");
  for (const char* wrong : {"", "0", "0,0", "0,0,", "0,0,x", "0,0,1,1", "0 0 1", ",0,1"})
    EXPECT_THAT(Placement::parse(wrong, 3).error().text(), HasSubstr("is not a number for each of 3 ranks")) << wrong;
}

} // namespace
} // namespace mc2::testing
