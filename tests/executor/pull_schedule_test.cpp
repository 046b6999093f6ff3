#include "backends/host/transports/pull_schedule.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace mc2::executor::host::pull_schedule_test {
namespace {

/// A piece of this length from every rank.
std::vector<double> pieces(int world_size, double ns) {
  return std::vector<double>(static_cast<std::size_t>(world_size), ns);
}

/// When each rank has its pieces of 10 ns if all start together.
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
  EXPECT_EQ(lanes::peer_at(lanes::PeerOrder::Rank, 2, 4, 2), 3); // after 0 and 1
}

TEST(PullSchedule, StaggeredRanksPullAtFullRate) {
  // Each of R - 1 pieces of 10 ns has its source for itself.
  for (const int world_size : {2, 3, 4, 8})
    EXPECT_EQ(ends_together(world_size, lanes::PeerOrder::Staggered),
              std::vector<double>(static_cast<std::size_t>(world_size), 10.0 * (world_size - 1)));
}

TEST(PullSchedule, RanksThatAllStartAtRankZeroShareItsOutgoingDirection) {
  // 4 ranks. 0 to 30: 1, 2 and 3 share rank 0 (3 x 10 ns), while 0 pulls from 1, 2, 3 alone and has all at 30. 30 to
  // 50: 2 and 3 share rank 1, while 1 pulls from 2 and 3 alone and has all at 50. 50 to 60: 2 from 3, 3 from 2.
  EXPECT_EQ(ends_together(4, lanes::PeerOrder::Rank), (std::vector<double>{30, 50, 60, 60}));
  // So 8 ranks take 7 + 6 + ... + 1 = 28 pieces' time where 7 would do; two ranks have nobody to share with.
  EXPECT_NEAR(ends_together(8, lanes::PeerOrder::Rank).back(), 280, 1e-9);
  EXPECT_EQ(ends_together(2, lanes::PeerOrder::Rank), (std::vector<double>{10, 10}));
}

TEST(PullSchedule, APieceThatStartsLaterSlowsOnlyWhatIsLeft) {
  // 3 ranks. 1 pulls from 0 from 0 on, 2 from 5 on: 5 ns alone, then the other 5 take 10, until 15. 2 has 5 left
  // then: until 20. Then 1 pulls from 2 from 15 to 25, 2 from 1 from 20 to 30.
  PullSchedule schedule(3);
  schedule.post(1, 0, pieces(3, 10), lanes::PeerOrder::Rank);
  EXPECT_EQ(schedule.projected_end_ns(1), 20);
  schedule.post(2, 5, pieces(3, 10), lanes::PeerOrder::Rank);
  EXPECT_EQ(schedule.projected_end_ns(1), 25);
  EXPECT_EQ(schedule.projected_end_ns(2), 30);
  EXPECT_FALSE(schedule.is_finished_at(1, 20)); // what was projected before rank 2 came
  EXPECT_TRUE(schedule.is_finished_at(1, 25));
  EXPECT_FALSE(schedule.is_finished_at(2, 25));
  EXPECT_TRUE(schedule.is_finished_at(2, 30));
}

TEST(PullSchedule, WhoIsPostedTooLateHasPulledAloneUntilNow) {
  PullSchedule schedule(3);
  schedule.post(0, 0, pieces(3, 10), lanes::PeerOrder::Staggered);
  EXPECT_TRUE(schedule.is_finished_at(0, 20));
  schedule.post(1, 5, pieces(3, 10), lanes::PeerOrder::Staggered); // 15 ns missed: one piece and a half
  EXPECT_EQ(schedule.projected_end_ns(1), 25);
  schedule.post(2, 0, pieces(3, 10), lanes::PeerOrder::Staggered); // all missed
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
  // Rank 0 pulls 30 ns from 1 and none from 2; rank 2 pulls 4 from 0 and then 6 from 1, which it shares from 4 on: 12
  // ns. Rank 0 has 26 left at 4 and 20 at 16, when it has rank 1 for itself again: until 36.
  PullSchedule schedule(3);
  schedule.post(0, 0, std::vector<double>{99, 30, 0}, lanes::PeerOrder::Staggered);
  EXPECT_EQ(schedule.projected_end_ns(0), 30);
  schedule.post(2, 0, std::vector<double>{4, 6, 99}, lanes::PeerOrder::Staggered);
  EXPECT_EQ(schedule.projected_end_ns(2), 16);
  EXPECT_EQ(schedule.projected_end_ns(0), 36);
  EXPECT_TRUE(schedule.is_finished_at(0, 36));
  schedule.post(1, 30, std::vector<double>{4, 0, 5}, lanes::PeerOrder::Staggered); // 6 ns missed: 5 from rank 2, 1 of 4
  EXPECT_EQ(schedule.projected_end_ns(1), 39);
}

RC_GTEST_PROP(PullSchedule, NoDirectionCarriesMoreThanItsRate, ()) {
  // A rank needs (R - 1) pieces' time at least, and the last to end no more than all pieces one after the other.
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
