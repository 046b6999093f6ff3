#include "backends/host/transports/pull_schedule.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace mc2::executor::host::pull_schedule_test {
namespace {

/// One piece of this length from every rank.
std::vector<double> pieces(int world_size, double ns) {
  return std::vector<double>(static_cast<std::size_t>(world_size), ns);
}

/// The times at which the ranks have all their pieces of 10 ns, if all ranks start together.
std::vector<double> ends_together(int world_size, lanes::PeerOrder order) {
  PullSchedule schedule(world_size);
  for (int rank = 0; rank < world_size; ++rank) schedule.post(rank, 0, pieces(world_size, 10), order);
  std::vector<double> ends;
  for (int rank = 0; rank < world_size; ++rank) ends.push_back(schedule.projected_end_ns(rank));
  return ends;
}

TEST(PeerAt, StaggeredOrdersMeetEveryPeerOnceAndNoTwoRanksMeetTheSameAtATime) {
  for (const int world_size : {2, 3, 8}) {
    for (int index = 0; index < world_size - 1; ++index) {
      std::set<int> met;
      for (int rank = 0; rank < world_size; ++rank) {
        const int peer = lanes::peer_at(lanes::PeerOrder::Staggered, rank, world_size, index);
        EXPECT_NE(peer, rank);
        met.insert(peer);
      }
      EXPECT_EQ(static_cast<int>(met.size()), world_size);
    }
  }
  EXPECT_EQ(lanes::peer_at(lanes::PeerOrder::Staggered, 2, 4, 0), 3);
  EXPECT_EQ(lanes::peer_at(lanes::PeerOrder::Rank, 2, 4, 0), 0);
  EXPECT_EQ(lanes::peer_at(lanes::PeerOrder::Rank, 2, 4, 2), 3); // peers 0 and 1 come first
}

TEST(PullSchedule, StaggeredRanksPullAtFullRate) {
  // No two ranks pull from the same source at the same time, so R - 1 pieces take 10 ns each.
  for (const int world_size : {2, 3, 4, 8})
    EXPECT_EQ(ends_together(world_size, lanes::PeerOrder::Staggered),
              std::vector<double>(static_cast<std::size_t>(world_size), 10.0 * (world_size - 1)));
}

TEST(PullSchedule, RanksThatAllStartAtRankZeroShareItsOutgoingDirection) {
  // 4 ranks. From 0 to 30 ns ranks 1, 2 and 3 share rank 0 (3 x 10 ns), while rank 0 pulls from 1, 2 and 3 alone and
  // has all at 30. From 30 to 50 ranks 2 and 3 share rank 1, while rank 1 pulls from 2 and 3 alone and has all at 50.
  // From 50 to 60 rank 2 pulls from 3, and 3 from 2.
  EXPECT_EQ(ends_together(4, lanes::PeerOrder::Rank), (std::vector<double>{30, 50, 60, 60}));
  // So 8 ranks take the time of 7 + 6 + ... + 1 = 28 pieces where 7 would do. Two ranks share with nobody.
  EXPECT_NEAR(ends_together(8, lanes::PeerOrder::Rank).back(), 280, 1e-9);
  EXPECT_EQ(ends_together(2, lanes::PeerOrder::Rank), (std::vector<double>{10, 10}));
}

TEST(PullSchedule, APieceThatStartsLaterSlowsOnlyWhatIsLeft) {
  // 3 ranks. Rank 1 pulls from rank 0 from 0 ns on, rank 2 from 5 on. Rank 1 pulls for 5 ns alone; the other 5 ns take
  // 10, until 15. Rank 2 then has 5 ns left, until 20. Rank 1 pulls from rank 2 from 15 to 25, and rank 2 from rank 1
  // from 20 to 30.
  PullSchedule schedule(3);
  schedule.post(1, 0, pieces(3, 10), lanes::PeerOrder::Rank);
  EXPECT_EQ(schedule.projected_end_ns(1), 20);
  schedule.post(2, 5, pieces(3, 10), lanes::PeerOrder::Rank);
  EXPECT_EQ(schedule.projected_end_ns(1), 25);
  EXPECT_EQ(schedule.projected_end_ns(2), 30);
  EXPECT_FALSE(schedule.is_finished_at(1, 20)); // 20 was projected before rank 2 came
  EXPECT_TRUE(schedule.is_finished_at(1, 25));
  EXPECT_FALSE(schedule.is_finished_at(2, 25));
  EXPECT_TRUE(schedule.is_finished_at(2, 30));
}

TEST(PullSchedule, WhoIsPostedTooLateHasPulledAloneUntilNow) {
  PullSchedule schedule(3);
  schedule.post(0, 0, pieces(3, 10), lanes::PeerOrder::Staggered);
  EXPECT_TRUE(schedule.is_finished_at(0, 20));
  schedule.post(1, 5, pieces(3, 10), lanes::PeerOrder::Staggered); // now is 20: pulled alone for 15 ns
  EXPECT_EQ(schedule.projected_end_ns(1), 25);
  schedule.post(2, 0, pieces(3, 10), lanes::PeerOrder::Staggered); // pulled everything alone
  EXPECT_EQ(schedule.projected_end_ns(2), 20);
  EXPECT_TRUE(schedule.is_finished_at(2, 20));
}

TEST(PullSchedule, EmptyPiecesAndPostsOneAfterTheOtherEnd) {
  PullSchedule schedule(4);
  schedule.post(3, 7, pieces(4, 0), lanes::PeerOrder::Rank);
  EXPECT_EQ(schedule.projected_end_ns(3), 7);
  EXPECT_TRUE(schedule.is_finished_at(3, 7));
  schedule.post(3, 8, pieces(4, 2), lanes::PeerOrder::Rank);
  EXPECT_EQ(schedule.projected_end_ns(3), 14);
  schedule.reset();
  schedule.post(3, 0, pieces(4, 2), lanes::PeerOrder::Rank);
  EXPECT_EQ(schedule.projected_end_ns(3), 6);
}

TEST(PullSchedule, PiecesOfDifferentLengthsFollowEachOther) {
  // Rank 0 pulls 30 ns from rank 1 and nothing from rank 2. Rank 2 pulls 4 ns from rank 0, then 6 ns from rank 1, which
  // it shares from 4 ns on and which takes 12. Rank 0 has 26 ns left at 4 and 20 at 16. From then on it has rank 1 to
  // itself, until 36.
  PullSchedule schedule(3);
  schedule.post(0, 0, std::vector<double>{99, 30, 0}, lanes::PeerOrder::Staggered);
  EXPECT_EQ(schedule.projected_end_ns(0), 30);
  schedule.post(2, 0, std::vector<double>{4, 6, 99}, lanes::PeerOrder::Staggered);
  EXPECT_EQ(schedule.projected_end_ns(2), 16);
  EXPECT_EQ(schedule.projected_end_ns(0), 36);
  EXPECT_TRUE(schedule.is_finished_at(0, 36));
  schedule.post(1, 30, std::vector<double>{4, 0, 5}, lanes::PeerOrder::Staggered); // in 6 ns: 5 from rank 2, 1 of 4
  EXPECT_EQ(schedule.projected_end_ns(1), 39);
}

RC_GTEST_PROP(PullSchedule, NoDirectionCarriesMoreThanItsRate, ()) {
  // A rank needs at least the time of its R - 1 pieces. The last rank ends no later than if all pieces went one after
  // the other.
  const int world_size = *rc::gen::inRange(2, 10);
  PullSchedule schedule(world_size);
  std::vector<double> starts;
  double last_start = 0, sum = 0, latest = 0;
  const double piece_ns = *rc::gen::inRange(1, 1000) * 0.37;
  for (int rank = 0; rank < world_size; ++rank) {
    starts.push_back(*rc::gen::inRange(0, 3000) * 0.41);
    last_start = std::max(last_start, starts.back());
    sum += (world_size - 1) * piece_ns;
    schedule.post(rank, starts.back(), pieces(world_size, piece_ns),
                  *rc::gen::element(lanes::PeerOrder::Rank, lanes::PeerOrder::Staggered));
  }
  for (int rank = 0; rank < world_size; ++rank) {
    const double end = schedule.projected_end_ns(rank);
    RC_ASSERT(end >= starts[static_cast<std::size_t>(rank)] + (world_size - 1) * piece_ns - 1e-6);
    latest = std::max(latest, end);
  }
  RC_ASSERT(latest <= last_start + sum + 1e-6);
  for (int rank = 0; rank < world_size; ++rank) RC_ASSERT(schedule.is_finished_at(rank, latest + 1e-6));
}

} // namespace
} // namespace mc2::executor::host::pull_schedule_test
