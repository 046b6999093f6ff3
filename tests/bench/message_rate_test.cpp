#include "message_rate.hpp"

#include <gtest/gtest.h>

namespace mc2::executor::message_rate_test {
namespace {

TEST(MessageRate, EveryPathDeliversMoreMessagesThanItsBuffersHold) {
  for (const MessagePath path : {MessagePath::Pull, MessagePath::Push, MessagePath::PushByProxy}) {
    for (const std::size_t byte_count : {8U, 5000U}) {
      const MessageTimes times = time_messages(path, byte_count, 100);
      EXPECT_GT(times.lane_us, 0) << to_string(path);
      EXPECT_GT(times.throughput_us, 0) << to_string(path);
      EXPECT_GT(times.latency_us, 0) << to_string(path);
    }
  }
}

TEST(MessageRate, OneMessageIsEnough) { EXPECT_GT(time_messages(MessagePath::Push, 64, 1).throughput_us, 0); }

} // namespace
} // namespace mc2::executor::message_rate_test
