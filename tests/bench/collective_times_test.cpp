#include "collective_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::cli::collective_times_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kVariants{"one", "two(lanes=2)"};

/// Times of two variants. Lane time, throughput and latency differ, so that a test notices a wrong mode.
std::vector<CollectiveTimes> sizes() {
  return {{.message_bytes = 1024, .lane_us = {1, 2}, .throughput_us = {2, 1}, .latency_us = {5, 6}, .copy_us = 0.5},
          {.message_bytes = 2048, .lane_us = {2, 3}, .throughput_us = {3, 2}, .latency_us = {6, 5}, .copy_us = 1},
          {.message_bytes = 1 << 20, .lane_us = {9, 4}, .throughput_us = {4, 5}, .latency_us = {9, 8}, .copy_us = 2}};
}

TEST(CollectiveTimes, SwitchOversNameTheLastSizeOfEachWinner) {
  EXPECT_EQ(switch_overs(sizes(), kVariants, TimingMode::LaneTime), "one up to 2 KiB, two(lanes=2)");
  EXPECT_EQ(switch_overs(sizes(), kVariants, TimingMode::Throughput), "two(lanes=2) up to 2 KiB, one");
  EXPECT_EQ(switch_overs(sizes(), kVariants, TimingMode::Latency), "one up to 1 KiB, two(lanes=2)");
}

TEST(CollectiveTimes, OneWinnerEverywhereHasNoSwitchOver) {
  EXPECT_EQ(switch_overs(std::vector{sizes().front()}, kVariants, TimingMode::LaneTime), "one");
}

TEST(CollectiveTimes, ChartNamesEveryVariantAndTheSpeedOfLight) {
  const std::string chart = collectives_chart(sizes(), kVariants, 1, "All-reduce");
  for (const char* text : {"one", "two(lanes=2)", "speed of light", "bus bandwidth, GB/s", "message, KiB"})
    EXPECT_THAT(chart, HasSubstr(text));
  auto remote = sizes();
  for (auto& size : remote) size.copy_us = 0;
  EXPECT_THAT(collectives_chart(remote, kVariants, 1, "All-reduce"), Not(HasSubstr("speed of light")));
}

} // namespace
} // namespace mc2::cli::collective_times_test
