#include "tune/judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mc2::profiler::judge_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

planner::OpSpec small_op() {
  return {.kind = planner::OpKind::MatmulAllReduce,
          .m = 1024,
          .n = 64,
          .k = 64,
          .dtype = planner::DType::F32,
          .world_size = 2};
}

/// A race of one contender with these fused times, each next to a serial run of 100 us.
Race race_of(std::vector<double> fused_us, bool is_serial = false) {
  Race race;
  Contender& contender = race.contenders.emplace_back();
  contender.cut = {{512, 512}};
  contender.serial_us.assign(fused_us.size(), 100);
  contender.fused_us = std::move(fused_us);
  contender.is_serial = is_serial;
  return race;
}

TEST(UncutReason, IsUndecidedWhereTheNoiseHidesAGainAndALoss) {
  // With 7 pairs the median's 95 % interval reaches from the smallest ratio to the largest: 0.5 to 3.
  const std::string reason = uncut_reason(small_op(), race_of({50, 300, 60, 280, 70, 290, 65}));
  EXPECT_THAT(reason, StartsWith(std::string(planner::kUndecided)));
  EXPECT_THAT(reason, HasSubstr("the best cut, 2 x 512, measured +30.0 % (95 % interval -200.0 to +50.0 %)"));
  EXPECT_THAT(reason, HasSubstr("too noisy to tell"));
}

TEST(UncutReason, IsDecidedWhereNoGainWorthARaceIsLeft) {
  const std::string reason = uncut_reason(small_op(), race_of({99, 101, 100, 102, 99.5, 100.5, 101}));
  EXPECT_THAT(reason, StartsWith("do not cut: the best cut, 2 x 512, measured -0.5 %"));
  EXPECT_THAT(uncut_reason(small_op(), race_of({150, 160, 170, 155, 165, 158, 162})), StartsWith("do not cut: "));
  EXPECT_THAT(uncut_reason(small_op(), race_of({100, 101, 99}, true)), HasSubstr("no cut is predicted faster"));
}

} // namespace
} // namespace mc2::profiler::judge_test
