#include "parallel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mc2::cli::parallel_test {
namespace {

bool never() { return false; }
void unwatched(std::size_t) {}

TEST(ForEachIndex, EveryIndexIsVisitedOnceWhateverTheThreads) {
  for (const int thread_count : {1, 2, 7, 40})
    for (const std::size_t count : {0U, 1U, 13U, 5000U}) {
      std::vector<std::atomic<int>> visits(count);
      for_each_index(
          count, thread_count, [&](std::size_t i) { ++visits[i]; }, never, unwatched);
      EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](const auto& v) { return v == 1; }))
          << thread_count << " threads, " << count << " indices";
    }
}

TEST(ForEachIndex, OneThreadVisitsInOrder) {
  std::vector<std::size_t> order;
  for_each_index(
      4, 1, [&](std::size_t i) { order.push_back(i); }, never, unwatched);
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2, 3));
}

TEST(ForEachIndex, FirstExceptionReachesTheCallerAndStopsTheRest) {
  std::atomic<int> count{0};
  const auto work = [&](std::size_t i) {
    ++count;
    if (i == 3) throw std::runtime_error("three");
  };
  EXPECT_THROW(for_each_index(1'000'000, 2, work, never, unwatched), std::runtime_error);
  EXPECT_LT(count, 1'000'000);
}

TEST(ForEachIndex, CancellationLeavesTheRestUndone) {
  std::atomic<int> count{0};
  for_each_index(
      1'000'000, 3, [&](std::size_t) { ++count; }, [&] { return count >= 10; }, unwatched);
  // When the tenth index was counted, each of the three threads may already have passed the check for cancellation.
  EXPECT_GE(count, 10);
  EXPECT_LE(count, 13);
}

TEST(ForEachIndex, WatchRunsOnTheCallingThread) {
  std::atomic<bool> was_watched{false};
  const auto caller = std::this_thread::get_id();
  std::thread::id watcher;
  const auto work = [&](std::size_t) { was_watched.wait(false); };
  for_each_index(2, 2, work, never, [&](std::size_t done_count) {
    if (was_watched) return;
    EXPECT_EQ(done_count, 0U);
    watcher = std::this_thread::get_id();
    was_watched = true;
    was_watched.notify_all();
  });
  EXPECT_EQ(watcher, caller);
}

} // namespace
} // namespace mc2::cli::parallel_test
