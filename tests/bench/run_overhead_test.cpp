#include "run_overhead.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::executor::run_overhead_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Gt;
using ::testing::SizeIs;

// time_run_overhead() itself throws when the results differ.
TEST(RunOverhead, TimesAsManyPairsAsAsked) {
  for (const int blocks : {1, 5}) {
    const auto pairs = time_run_overhead(blocks, 4).value();
    EXPECT_THAT(pairs.first_us, AllOf(SizeIs(4), Each(Gt(0))));
    EXPECT_THAT(pairs.second_us, AllOf(SizeIs(4), Each(Gt(0))));
  }
}

} // namespace
} // namespace mc2::executor::run_overhead_test
