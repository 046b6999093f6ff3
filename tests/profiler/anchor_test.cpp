#include "mc2/profiler/anchor.hpp"

#include <gtest/gtest.h>

#include "mc2/planner/planner.hpp"
#include "support/invented_bench.hpp"
#include "support/models.hpp"

namespace mc2::profiler::anchor_test {
namespace {

using planner::CurveAxis;
using planner::Variant;
using test::invented_op;

const Variant kDirect{"direct", {}};
const Variant kRing{"ring", {}};

/// A machine at half the speed that the model predicts: uncut, the matmul takes 1034 us and the collective 2068 us.
test::InventedBench slow_bench() { return {invented_op(), {{kDirect, {10, 1, 20, 2}}, {kRing, {10, 1, 40, 4}}}}; }

planner::CostModel model_of_a_faster_day() {
  auto model = mc2::testing::model_of(invented_op(), mc2::testing::affine(CurveAxis::Rows, 5, 0.5),
                                      mc2::testing::affine(CurveAxis::Bytes, 10, 1.0 / 256), 1.1, 1.2);
  model.variants.front().variant = kDirect;
  for (auto* curve : {&model.variants.front().compute.curve, &model.variants.front().communication.curve}) {
    curve->relative_interval = 0.2;
    curve->quality.point_count = 9;
    curve->quality.relative_rms = 0.01;
  }
  return model;
}

TEST(Anchor, TimesBothPartsOfWhatModelAndBenchKnow) {
  test::InventedBench bench = slow_bench();
  const auto times = time_lanes(bench, model_of_a_faster_day()).value();
  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times.front().variant, "direct");
  // The invented bench lengthens its runs by 0 to 0.4 % in turn.
  EXPECT_NEAR(times.front().compute_us, 1034, 5);
  EXPECT_NEAR(times.front().communication_us, 2068, 9);
}

TEST(Anchor, RunsEachPartForTheLeastTimeAndTheLeastRuns) {
  test::InventedBench bench = slow_bench();
  static_cast<void>(time_lanes(bench, model_of_a_faster_day()).value());
  // 49 runs of 1.034 ms, and 25 of 2.068 ms, are the fewest that exceed 50 ms. Each part also warms up with two runs.
  EXPECT_NEAR(bench.run_count(), 49 + 25 + 4, 1);
  // Five runs of more than 20 ms are enough.
  test::InventedBench slow(invented_op(), {{kDirect, {20'000, 1, 20'000, 2}}});
  static_cast<void>(time_lanes(slow, model_of_a_faster_day()).value());
  EXPECT_EQ(slow.run_count(), 5 + 5 + 4);
}

TEST(Anchor, BringsTheModelToThatSpeed) {
  test::InventedBench bench = slow_bench();
  const auto model = model_of_a_faster_day();
  const auto times = time_lanes(bench, model).value();
  const auto now = planner::at_speed(model, invented_op(), times).value();
  const planner::Cut halves = planner::equal_blocks(invented_op(), 512);
  const double before_us = planner::predict_cut(invented_op(), model, halves).value().makespan.us;
  const planner::Plan plan = planner::predict_cut(invented_op(), now, halves).value();
  EXPECT_NEAR(plan.makespan.us, 2 * before_us, 0.01 * before_us);
  EXPECT_NEAR(plan.serial_us, 1034 + 2068, 14);
  // Two errors remain in the interval: the curves' own of 1.645 %, and that of the medians.
  EXPECT_LT(plan.makespan.high_us / plan.makespan.us, 1.02);
}

/// As InventedBench, but every other run takes 1.2 times as long.
class UnsteadyBench : public test::InventedBench {
 public:
  UnsteadyBench() : InventedBench(invented_op(), {{kDirect, {10, 1, 20, 2}}}) {}
  [[nodiscard]] double time_us(std::size_t prepared, RunPart part) override {
    return InventedBench::time_us(prepared, part) * (++count_ / 2 % 2 == 0 ? 0.9 : 1.1);
  }

 private:
  int count_ = 0;
};

TEST(Anchor, RunsUnsteadyPartsForLongerButNotForEver) {
  UnsteadyBench bench;
  const auto times = time_lanes(bench, model_of_a_faster_day()).value();
  EXPECT_NEAR(bench.run_count(), 400 / 1.034 + 400 / 2.068 + 4, 12);
  EXPECT_GT(times.front().compute_interval, 0.05);
}

TEST(Anchor, RunsBlocksThatTheModelWasMeasuredFor) {
  test::InventedBench bench = slow_bench();
  auto model = model_of_a_faster_day();
  model.variants.front().compute.curve.valid_max_x = 400;
  const auto times = time_lanes(bench, model).value();
  EXPECT_EQ(times.front().cut, (planner::Cut{{384, 384, 256}}));
  EXPECT_NEAR(times.front().compute_us, 3 * 10 + 1024, 5);
  const auto now = planner::at_speed(model, invented_op(), times).value();
  EXPECT_NEAR(now.variants.front().compute.curve.time_us(100), 10 + 100, 1);
  EXPECT_NEAR(now.variants.front().communication.curve.time_us(256 * 64 * 4), 20 + 2 * 256, 3);
}

TEST(Anchor, RefusesWhatNothingCanBeTimedOf) {
  test::InventedBench bench = slow_bench();
  auto model = model_of_a_faster_day();
  model.variants.front().variant = {"tree", {}};
  EXPECT_EQ(time_lanes(bench, model).error().code, ErrorCode::NotFound);
  EXPECT_EQ(planner::at_speed(model, invented_op(), {}).error().code, ErrorCode::NotFound);
  planner::TimedLanes none;
  none.variant = "tree";
  EXPECT_EQ(planner::at_speed(model, invented_op(), {&none, 1}).error().code, ErrorCode::InvalidSpec);
}

TEST(Anchor, StopsBetweenRuns) {
  test::InventedBench bench = slow_bench();
  TuneHooks hooks;
  hooks.is_cancelled = [] { return true; };
  EXPECT_EQ(time_lanes(bench, model_of_a_faster_day(), hooks).error().code, ErrorCode::Cancelled);
}

} // namespace
} // namespace mc2::profiler::anchor_test
