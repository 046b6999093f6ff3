#include "run_overhead.hpp"

#include <gtest/gtest.h>

namespace mc2::executor::run_overhead_test {
namespace {

// That both give the same results is checked inside, which throws otherwise.
TEST(RunOverhead, TimesAsManyPairsAsAsked) {
  for (const int blocks : {1, 5}) {
    const auto pairs = time_run_overhead(blocks, 4);
    ASSERT_EQ(pairs.size(), 4U);
    for (const RunPair& pair : pairs) {
      EXPECT_GT(pair.by_hand_us, 0);
      EXPECT_GT(pair.prepared_us, 0);
    }
  }
}

} // namespace
} // namespace mc2::executor::run_overhead_test
