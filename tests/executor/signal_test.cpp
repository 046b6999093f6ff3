#include "lanes/signal.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace mc2::executor::lanes::signal_test {
namespace {

constexpr auto kForever = Clock::time_point::max();

TEST(Signal, CountThatIsAlreadyReachedDoesNotWait) {
  Signal signal;
  signal.add();
  signal.add();
  EXPECT_EQ(signal.wait_at_least(2, kForever), WaitResult::Reached);
  EXPECT_EQ(signal.wait_at_least(0, Clock::time_point{}), WaitResult::Reached);
}

TEST(Signal, DeadlineThatHasPassedEndsTheWait) {
  Signal signal;
  signal.add();
  EXPECT_EQ(signal.wait_at_least(2, Clock::time_point{}), WaitResult::TimedOut);
  EXPECT_EQ(signal.wait_at_least(2, Clock::now()), WaitResult::TimedOut);
}

TEST(Signal, WaiterNeverReturnsBeforeItsDeadline) {
  Signal signal;
  const auto deadline = Clock::now() + std::chrono::milliseconds(2);
  EXPECT_EQ(signal.wait_at_least(1, deadline), WaitResult::TimedOut);
  EXPECT_GE(Clock::now(), deadline);
}

TEST(Signal, WakesEveryWaiterAndPublishesWhatWasWritten) {
  Signal signal;
  std::vector<int> published(100);
  int right_count = 0;
  {
    std::vector<std::jthread> waiters;
    std::atomic<int> right{0};
    for (int w = 0; w < 3; ++w) {
      waiters.emplace_back([&] {
        for (std::uint32_t i = 0; i < 100; ++i) {
          if (signal.wait_at_least(i + 1, kForever) == WaitResult::Reached && published[i] == static_cast<int>(i))
            ++right;
        }
      });
    }
    for (int i = 0; i < 100; ++i) {
      published[static_cast<std::size_t>(i)] = i;
      signal.add();
    }
    waiters.clear();
    right_count = right;
  }
  EXPECT_EQ(right_count, 300);
}

TEST(Signal, PoisonWakesWaitersAndOutlastsReset) {
  Signal signal;
  std::jthread waiter([&] { EXPECT_EQ(signal.wait_at_least(1, kForever), WaitResult::Aborted); });
  signal.poison();
  waiter.join();
  signal.add();
  EXPECT_EQ(signal.wait_at_least(1, kForever), WaitResult::Aborted);
  signal.reset();
  EXPECT_TRUE(signal.is_poisoned());
  EXPECT_EQ(signal.count(), 0U);
  EXPECT_EQ(signal.wait_at_least(0, kForever), WaitResult::Aborted);
}

TEST(Signal, ResetCountsFromZeroAgain) {
  Signal signal;
  signal.add();
  signal.reset();
  EXPECT_EQ(signal.count(), 0U);
  EXPECT_EQ(signal.wait_at_least(1, Clock::time_point{}), WaitResult::TimedOut);
}

} // namespace
} // namespace mc2::executor::lanes::signal_test
