#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/mpi/links.hpp"

namespace mc2::testing {
namespace {

using executor::mpi::Links;
using ::testing::ElementsAre;

/// A pair of nodes whose link takes `us` per byte; all other links take 0.01 us per byte.
struct Slow {
  int node, other;
  double us;
};
Links links(int count, const std::vector<Slow>& slow) {
  std::vector<std::vector<double>> byte_us(static_cast<std::size_t>(count),
                                           std::vector<double>(static_cast<std::size_t>(count), 0.01));
  for (const auto& [node, other, us] : slow) {
    byte_us[static_cast<std::size_t>(node)][static_cast<std::size_t>(other)] = us;
    byte_us[static_cast<std::size_t>(other)][static_cast<std::size_t>(node)] = us;
  }
  return Links(byte_us);
}

TEST(Links, OfTwoNodesOrAllAlikeAreToldOfNothing) {
  EXPECT_EQ(Links(2).text(), "");
  EXPECT_EQ(links(4, {}).text(), "");
  EXPECT_EQ(links(3, {{0, 2, 0.019}}).text(), ""); // 1.9 x slower counts as noise
  EXPECT_THAT(links(3, {{0, 2, 0.019}}).ring(), ElementsAre(0, 1, 2));
}

TEST(Links, SlowPairsAreNamedWithThePowerOfTwoBelow) {
  EXPECT_EQ(links(3, {{0, 2, 0.02}}).text(), "0-2:2x");
  EXPECT_EQ(links(4, {{0, 2, 0.079}, {1, 3, 1.0}}).text(), "0-2:4x,1-3:64x");
  EXPECT_EQ(links(3, {{1, 2, 1e300}}).slowness(2, 1), 1 << 29); // slowness has an upper bound
}

TEST(Links, ARingPassesNoSlowLinkWhereItNeedNot) {
  EXPECT_THAT(links(4, {{0, 1, 0.1}}).ring(), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(links(3, {{0, 1, 0.1}}).ring(), ElementsAre(0, 1, 2)); // a ring of 3 must use every link
  // Node 2 is slow to every other node, so the ring must use two of its links: the faster two.
  const auto ring = links(5, {{2, 0, 0.1}, {2, 1, 0.1}, {2, 3, 0.4}, {2, 4, 0.4}}).ring();
  const auto at = std::ranges::find(ring, 2) - ring.begin();
  const int before = ring[static_cast<std::size_t>((at + 4) % 5)], after = ring[static_cast<std::size_t>((at + 1) % 5)];
  EXPECT_EQ(std::max(before, after), 1);
  EXPECT_EQ(std::min(before, after), 0);
}

TEST(Links, ManyNodesGoToANearOneNext) {
  std::vector<Slow> slow;
  for (int node = 0; node < 12; node += 2)
    for (int other = 1; other < 12; other += 2)
      slow.push_back({node, other, 0.2}); // even and odd nodes are in two racks
  const auto ring = links(12, slow).ring();
  const int changes =
      static_cast<int>(std::ranges::count_if(std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, [&](int at) {
        return ring[static_cast<std::size_t>(at)] % 2 != ring[static_cast<std::size_t>((at + 1) % 12)] % 2;
      }));
  EXPECT_EQ(changes, 2);
  auto sorted = ring;
  std::ranges::sort(sorted);
  EXPECT_THAT(sorted, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

} // namespace
} // namespace mc2::testing
