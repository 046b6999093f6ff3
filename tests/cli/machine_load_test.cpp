#include "machine_load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace mc2::cli::machine_load_test {
namespace {

using ::testing::HasSubstr;

TEST(MachineLoad, IsNotedFromAQuarterOfTheCoresOn) {
  EXPECT_FALSE(load_note(0, 2));
  EXPECT_FALSE(load_note(15.9, 64));
  EXPECT_THAT(load_note(16, 64).value_or(""), HasSubstr("16 threads on 64 cores"));
  EXPECT_THAT(load_note(1.94, 2).value_or(""), HasSubstr("1.9 threads on 2 cores"));
}

TEST(MachineLoad, CountsThreadsThatRun) {
  std::atomic<bool> is_over = false;
  std::thread busy([&] {
    while (!is_over) continue;
  });
  const auto running = other_running_threads();
  is_over = true;
  busy.join();
  ASSERT_TRUE(running);
  EXPECT_GT(*running, 0.5); // this test's own thread stands for another program's
}

TEST(MachineLoad, DoesNotMatterToGpus) { EXPECT_FALSE(load_note_now("cuda")); }

} // namespace
} // namespace mc2::cli::machine_load_test
