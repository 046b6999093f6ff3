#include "backends/cuda/runtime/rank_workers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mc2::executor::cuda {
namespace {

TEST(RankWorkers, EveryRankWorksOnAThreadOfItsOwnThatStaysTheSame) {
  for (int round = 0; round < 50; ++round) { // threads must not see half-built workers
    RankWorkers workers(std::array{0, 1, 2, 3});
    std::vector<std::thread::id> first(4), second(4);
    workers.run([&](int rank) { first[static_cast<std::size_t>(rank)] = std::this_thread::get_id(); });
    workers.run([&](int rank) { second[static_cast<std::size_t>(rank)] = std::this_thread::get_id(); });
    EXPECT_EQ(first, second);
    for (std::size_t a = 0; a < 4; ++a) {
      for (std::size_t b = a + 1; b < 4; ++b) EXPECT_NE(first[a], first[b]);
    }
  }
}

TEST(RankWorkers, ThrowsWhatTheRankThatFailedFirstThrewAndWakesTheOthersAtOnce) {
  RankWorkers workers(std::array{0, 1, 2});
  std::atomic<bool> is_woken = false;
  const auto work = [&](int rank) {
    if (rank == 2) throw std::runtime_error("rank 2 fell over");
    while (!is_woken) std::this_thread::yield(); // ends only when on_failure is called
    throw std::runtime_error("woken");
  };
  try {
    workers.run(work, [&] { is_woken = true; });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "rank 2 fell over");
  }
  std::atomic<int> ran = 0;
  workers.run([&](int) { ++ran; }); // a failure leaves no trace in the next run
  EXPECT_EQ(ran, 3);
}

} // namespace
} // namespace mc2::executor::cuda
