#include <gtest/gtest.h>

#include <algorithm>

#include "mc2/planner/planner.hpp"
#include "support/models.hpp"

namespace mc2::planner::wave_groups_test {
namespace {

PlanOptions wave_options() {
  PlanOptions options;
  options.strategy = "wave_groups";
  return options;
}

TEST(WaveGroups, PicksTheGroupingThatItsOwnPredictorLikesBest) {
  // 4 waves of 128 rows take 100 us each. The link takes 60 us and 1/2 us a row of 4 KiB. A power of two of waves is
  // priced exactly: 1 wave 124 us, 2 waves 188 us, 4 waves 316 us; 3 waves, about 252 us, are interpolated in
  // bandwidth. Each group's message starts when its matmul and the message before have ended. The messages end at:
  // {1, 3}: 100 + 124 = 224, max(400, 224) + 252 = 652. {2, 2}: 200 + 188 = 388, max(400, 388) + 188 = 588.
  // {3, 1}: 300 + 252 = 552, 552 + 124 = 676. {2, 1, 1}: 388, 512, 636. {1, 1, 2}: 224, 348, 588, the same as {2, 2}.
  // {1, 2, 1}: 224, max(300, 224) + 188 = 488, max(400, 488) + 124 = 612. {1, 1, 1, 1}: 224, 348, 472, 596.
  const CostModel model = testing::model_of(testing::all_reduce_op(512, 1024, 32, DType::F32, 2),
                                            testing::affine(CurveAxis::Rows, 0, 100.0 / 128),
                                            testing::affine(CurveAxis::Bytes, 60, 0.5 / 4096));
  const Plan plan = make_plan(model.op, model, wave_options()).value();
  EXPECT_EQ(plan.strategy, "wave_groups");
  EXPECT_EQ(plan.cut.block_rows, (std::vector<std::int64_t>{256, 256}));
  EXPECT_NE(plan.reason.find("588.0 us"), std::string::npos);
}

TEST(WaveGroups, KindsThatCommunicateFirstAreRefused) {
  const CostModel model = testing::all_gather_model();
  EXPECT_EQ(make_plan(model.op, model, wave_options()).error().code, ErrorCode::Infeasible);
}

TEST(WaveGroups, BlindToContentionItCutsWhereCuttingHurts) {
  // Each lane takes twice as long while the other is busy, so overlap gains nothing. Only the simulation knows that.
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.slowdown = model.variants[0].communication.slowdown = 2;
  const Plan theirs = make_plan(model.op, model, wave_options()).value();
  EXPECT_TRUE(theirs.is_cut());
  EXPECT_GT(theirs.makespan.us, make_plan(model.op, model, {}).value().makespan.us);
}

TEST(WaveGroups, KeepsWithinTheLimits) {
  CostModel model = testing::worked_example_model();
  PlanOptions options = wave_options();
  options.max_block_count = 3;
  options.min_block_rows = 1000;
  for (const std::int64_t m : {65, 127, 999, 2500, 4096, 100000}) {
    model.op.m = m;
    const auto rows = make_plan(model.op, model, options).value().cut.block_rows;
    EXPECT_LE(rows.size(), 3u);
    if (rows.size() > 1) {
      EXPECT_GE(*std::min_element(rows.begin(), rows.end()), 1000);
    }
  }
}

} // namespace
} // namespace mc2::planner::wave_groups_test
