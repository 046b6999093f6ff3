#include <algorithm>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "mc2/profiler/sweep.hpp"

namespace mc2::profiler::sweep_blocks_test {
namespace {

using ::testing::ElementsAre;

TEST(SweepBlockRows, HoldsCommonLengthsShortOnesAndFractions) {
  const std::vector<std::int64_t> lengths = sweep_block_rows(4096, 128);
  for (const std::int64_t length : {128, 256, 512, 768, 1024, 2048, 3072, 4096}) {
    EXPECT_THAT(lengths, ::testing::Contains(length));
  }
}

TEST(SweepBlockRows, FillsAShortAxisWithMultiplesOfTheAlignment) {
  // The axis is 6 * 128 = 768 rows long, so every multiple of 128 is taken.
  EXPECT_THAT(sweep_block_rows(768, 128), ElementsAre(128, 256, 384, 512, 640, 768));
}

TEST(SweepBlockRows, GoesBelowTheAlignmentOnAVeryShortAxis) {
  // The axis is as long as the alignment, 128 rows. Steps of 64 and 32 add only 3 lengths; steps of 16 fill up to 6.
  EXPECT_THAT(sweep_block_rows(128, 128), ElementsAre(16, 32, 48, 64, 96, 128));
}

TEST(SweepBlockRows, OfFewRowsAreAllOfThem) {
  EXPECT_THAT(sweep_block_rows(3, 128), ElementsAre(1, 2, 3));
  EXPECT_THAT(sweep_block_rows(1, 128), ElementsAre(1));
}

TEST(SweepBlockRows, OfNothingAreNone) {
  EXPECT_TRUE(sweep_block_rows(0, 128).empty());
  EXPECT_TRUE(sweep_block_rows(-5, 128).empty());
}

TEST(SweepBlockRows, TakesAnAlignmentBelowOneAsOne) { EXPECT_EQ(sweep_block_rows(100, 0), sweep_block_rows(100, 1)); }

TEST(SweepBlockRows, AscendsToTheWholeAxisWithEnoughLengthsAndNotTooMany) {
  EXPECT_TRUE(rc::check([] {
    const auto rows = *rc::gen::inRange<std::int64_t>(1, 1'000'000'001);
    const auto alignment = *rc::gen::inRange<std::int64_t>(1, 1025);
    const std::vector<std::int64_t> lengths = sweep_block_rows(rows, alignment);
    RC_ASSERT(std::adjacent_find(lengths.begin(), lengths.end(), std::greater_equal<>()) == lengths.end());
    RC_ASSERT(lengths.front() >= 1);
    RC_ASSERT(lengths.back() == rows);
    RC_ASSERT(std::ssize(lengths) >= std::min<std::int64_t>(rows, 6));
    RC_ASSERT(lengths.size() <= 40u);
  }));
}

TEST(CoarseToFine, TakesTheEndsThenTheMiddlesOfWhatIsLeft) {
  using Lengths = std::vector<std::int64_t>;
  EXPECT_EQ(coarse_to_fine(Lengths{}), Lengths{});
  EXPECT_EQ(coarse_to_fine(Lengths{7}), Lengths{7});
  EXPECT_EQ(coarse_to_fine(Lengths{1, 2, 3, 4, 5, 6, 7}), (Lengths{7, 1, 4, 2, 5, 3, 6}));
}

} // namespace
} // namespace mc2::profiler::sweep_blocks_test
