#include "mc2/planner/pipeline.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/random_slices.hpp"

namespace mc2::planner::pipeline_test {
namespace {

TEST(Pipeline, OneBlockIsTheSum) {
  const std::vector<double> first{10}, second{20};
  EXPECT_DOUBLE_EQ(simulate(first, second, {}).makespan_us, 30.0);
}

TEST(Pipeline, EqualBlocksHideTheShorterLane) {
  // 3 blocks take 10 us, then 20 us on the second lane, which starts at 10 and never waits: 10 + 3 * 20.
  const std::vector<double> first(3, 10.0), second(3, 20.0);
  EXPECT_DOUBLE_EQ(simulate(first, second, {}).makespan_us, 70.0);
}

TEST(Pipeline, FirstLaneBoundExposesTheLastBlock) {
  // The first lane ends at 60. The last block then takes 10 us on the second lane.
  const std::vector<double> first(3, 20.0), second(3, 10.0);
  EXPECT_DOUBLE_EQ(simulate(first, second, {}).makespan_us, 70.0);
}

TEST(Pipeline, SlowdownAppliesOnlyWhileBothAreBusy) {
  // Block 1 runs alone from 0 to 10. Then block 2 on the first lane (10 us) and block 1 on the second (20 us) run
  // together, each at half speed. Block 2 ends after 20 us, at 30, when the second lane has done 10 of 20 us. The rest
  // runs alone until 40. Block 2 runs on the second lane from 40 to 60.
  const std::vector<double> first{10, 10}, second{20, 20};
  const Timeline timeline = simulate(first, second, {2, 2});
  EXPECT_DOUBLE_EQ(timeline.first[1].end_us, 30.0);
  EXPECT_DOUBLE_EQ(timeline.second[0].end_us, 40.0);
  EXPECT_DOUBLE_EQ(timeline.makespan_us, 60.0);
  EXPECT_DOUBLE_EQ(timeline.overlap_us, 20.0);
}

TEST(Pipeline, ZeroLengthBlocksPassThrough) {
  const std::vector<double> first{0, 5, 0}, second{3, 0, 0};
  EXPECT_DOUBLE_EQ(simulate(first, second, {}).makespan_us, 5.0);
}

TEST(Pipeline, NoBlocksTakeNoTime) { EXPECT_DOUBLE_EQ(simulate({}, {}, {}).makespan_us, 0.0); }

/// Brute force: time advances in steps far shorter than any block, and each lane's progress is integrated.
double stepped_makespan_us(const std::vector<double>& first, const std::vector<double>& second,
                           const Slowdown& slowdown, double step_us) {
  std::size_t i = 0, j = 0;
  double left1 = first[0], left2 = second[0], now_us = 0;
  while (j < second.size()) {
    const bool busy1 = i < first.size(), busy2 = j < i;
    const bool both = busy1 && busy2;
    if (busy1) left1 -= step_us / (both ? slowdown.first : 1);
    if (busy2) left2 -= step_us / (both ? slowdown.second : 1);
    now_us += step_us;
    if (busy1 && left1 <= 0 && ++i < first.size()) left1 = first[i];
    if (busy2 && left2 <= 0 && ++j < second.size()) left2 = second[j];
  }
  return now_us;
}

RC_GTEST_PROP(Pipeline, AgreesWithSteppedOracleOnRandomPipelines, ()) {
  const auto count = static_cast<std::size_t>(*rc::gen::inRange(1, 8));
  const auto lane = [&] {
    std::vector<double> times;
    for (std::size_t i = 0; i < count; ++i) times.push_back(*rc::gen::inRange(1, 400) / 10.0);
    return times;
  };
  const std::vector<double> first = lane(), second = lane();
  const Slowdown slowdown{1 + *rc::gen::inRange(0, 30) / 10.0, 1 + *rc::gen::inRange(0, 30) / 10.0};
  constexpr double kStepUs = 0.001;
  const double expected_us = stepped_makespan_us(first, second, slowdown, kStepUs);
  // Every block end and every change of rate is off by at most one step, stretched by the slow-down of 4.
  const double tolerance_us = kStepUs * static_cast<double>(count) * 20;
  RC_ASSERT(std::abs(makespan_us(first, second, slowdown) - expected_us) <= tolerance_us);
  RC_ASSERT(std::abs(simulate(first, second, slowdown).makespan_us - expected_us) <= tolerance_us);
}

RC_GTEST_PROP(Pipeline, TimelineObeysTheRules, ()) {
  const auto first = *rc::gen::container<std::vector<double>>(
      6, rc::gen::map(rc::gen::inRange(0, 1000), [](int v) { return v / 10.0; }));
  const auto second = *rc::gen::container<std::vector<double>>(
      6, rc::gen::map(rc::gen::inRange(0, 1000), [](int v) { return v / 10.0; }));
  const Slowdown slowdown{1.3, 1.1};
  const Timeline timeline = simulate(first, second, slowdown);
  for (std::size_t i = 0; i < first.size(); ++i) {
    RC_ASSERT(timeline.second[i].start_us >= timeline.first[i].end_us);
    RC_ASSERT(timeline.first[i].end_us - timeline.first[i].start_us >= first[i] - 1e-9);
    RC_ASSERT(timeline.first[i].end_us - timeline.first[i].start_us <= first[i] * slowdown.first + 1e-9);
    if (i > 0) RC_ASSERT(timeline.first[i].start_us >= timeline.first[i - 1].end_us);
    if (i > 0) RC_ASSERT(timeline.second[i].start_us >= timeline.second[i - 1].end_us);
  }
  RC_ASSERT(std::abs(timeline.makespan_us - makespan_us(first, second, slowdown)) <= 1e-9 * timeline.makespan_us);
}

TEST(Pipeline, TheSecondLaneStartsOnTheFirstSlice) {
  // One block takes 40 us and 20 us, in 4 slices of 10 us and 5 us. The second lane works for 5 us after 10, 20, 30 and
  // 40 us.
  const std::vector<double> first{40}, second{20};
  const Timeline timeline = simulate(first, second, {}, Slices::equal(4));
  ASSERT_EQ(timeline.second.size(), 1U);
  EXPECT_DOUBLE_EQ(timeline.second[0].start_us, 10.0);
  EXPECT_DOUBLE_EQ(timeline.first[0].end_us, 40.0);
  EXPECT_DOUBLE_EQ(timeline.makespan_us, 45.0);
  EXPECT_DOUBLE_EQ(makespan_us(first, second, {}, Slices::equal(4)), 45.0);
}

TEST(Pipeline, SlicesTakeTheirShares) {
  // One block takes 40 us and 20 us, in slices of 1 and 3 quarters. The second lane works for 5 us after 10 us and for
  // 15 us after 40 us.
  const std::vector<double> first{40}, second{20};
  const Slices slices = Slices::parse("1+3").value();
  const Timeline timeline = simulate(first, second, {}, slices);
  EXPECT_DOUBLE_EQ(timeline.second[0].start_us, 10.0);
  EXPECT_DOUBLE_EQ(timeline.makespan_us, 55.0);
  EXPECT_DOUBLE_EQ(makespan_us(first, second, {}, slices), 55.0);
}

RC_GTEST_PROP(Pipeline, SlicesAreBlocksOneBehindTheOther, ()) {
  const auto count = static_cast<std::size_t>(*rc::gen::inRange(1, 6));
  const Slices slices = Slices::parse(testing::random_slices()).value();
  std::vector<double> first, second, fine_first, fine_second;
  for (std::size_t i = 0; i < count; ++i) {
    first.push_back(*rc::gen::inRange(1, 400) / 10.0);
    second.push_back(*rc::gen::inRange(1, 400) / 10.0);
    for (const double share : slices.shares()) {
      fine_first.push_back(first.back() * share);
      fine_second.push_back(second.back() * share);
    }
  }
  const Slowdown slowdown{1 + *rc::gen::inRange(0, 30) / 10.0, 1 + *rc::gen::inRange(0, 30) / 10.0};
  const double expected_us = makespan_us(fine_first, fine_second, slowdown);
  RC_ASSERT(std::abs(makespan_us(first, second, slowdown, slices) - expected_us) <= 1e-9 * expected_us);
  RC_ASSERT(std::abs(simulate(first, second, slowdown, slices).makespan_us - expected_us) <= 1e-9 * expected_us);
}

} // namespace
} // namespace mc2::planner::pipeline_test
