#include "mc2/planner/tile_waves.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/plan_ranges.hpp"
#include "mc2/planner/planner.hpp"
#include "support/models.hpp"

namespace mc2::planner::tile_waves_test {
namespace {

using testing::affine;
using testing::model_of;

/// A row of tiles has 16 tiles of 256 columns, so a wave of 132 SMs takes 1056 rows, counted over all ranks' shards.
OpSpec summing(OpKind kind) { return {kind, 8448, 4096, 3584, DType::Bf16, 4}; }

/// A row of the whole product takes 0.04 us of matmul and 0.05 us on the links; blocks have no fixed costs.
CostModel tile_model(OpKind kind, double slowdown = 1) {
  const bool has_shards = traits_of(kind).has_row_shards;
  CostModel model = model_of(summing(kind), affine(CurveAxis::Rows, 0, has_shards ? 0.16 : 0.04),
                             affine(CurveAxis::Bytes, 0, 0.05 / 8192), slowdown, slowdown);
  model.variants.front().variant = {std::string(kTileStoreVariant), {}};
  if (has_shards) model.variants.front().variant.fields["slices"] = "4";
  model.fingerprint = {{{"backend", "cuda"}, {"sm_count", "132"}}};
  return model;
}

double makespan_us(const CostModel& model, const Cut& cut) {
  return predict_cut(model.op, model, cut).value().makespan.us;
}

TEST(TileWaves, CountTheTilesOfAllShards) {
  const TileWaves whole(summing(OpKind::MatmulAllReduce), 256, 132);
  EXPECT_TRUE(whole.is_wave(1056));
  EXPECT_TRUE(whole.is_wave(951)); // nine tenths of a wave count as one
  EXPECT_FALSE(whole.is_wave(950));
  EXPECT_EQ(whole.least_rows(), 951);
  EXPECT_EQ(whole.wave_count(8448), 8);
  EXPECT_EQ(whole.wave_count(1200), 2);
  EXPECT_EQ(whole.wave_count(100), 1);
  const TileWaves shards(summing(OpKind::MatmulReduceScatter), 256, 132); // a row of the cut axis is a row of 4 shards
  EXPECT_EQ(shards.least_rows(), 238);
  EXPECT_EQ(shards.wave_count(2112), 8);
}

TEST(TileWaves, TakeShortBlocksTogether) {
  const TileWaves waves(summing(OpKind::MatmulAllReduce), 256, 132);
  using Rows = std::vector<std::int64_t>;
  EXPECT_EQ(waves.taken_together({512, 512, 512, 512}), (Rows{1024, 1024}));
  EXPECT_EQ(waves.taken_together({2048, 1024, 128}), (Rows{2048, 1152}));
  EXPECT_EQ(waves.taken_together({128, 128}), (Rows{256}));
  EXPECT_EQ(waves.taken_together({1056, 1056}), (Rows{1056, 1056}));
}

TEST(TileWaves, AreOfTilesThatShareAKernelOnAKnownNumberOfSms) {
  const CostModel model = tile_model(OpKind::MatmulAllReduce);
  Variant variant = model.variants.front().variant;
  EXPECT_EQ(tile_waves(model.op, variant, model.fingerprint)->least_rows(), 951);
  variant.fields = {{"tile", "128x128"}, {"gemm_sms", "66"}};
  EXPECT_EQ(tile_waves(model.op, variant, model.fingerprint)->least_rows(), 238);
  EXPECT_FALSE(tile_waves(model.op, variant, Fingerprint{}));
  EXPECT_FALSE(tile_waves(model.op, {"direct", {}}, model.fingerprint));
  OpSpec few = model.op;
  few.m = 16; // so few rows are cut by columns
  EXPECT_FALSE(tile_waves(few, variant, model.fingerprint));
}

TEST(TileWaves, ShortBlocksTakeAsLongAsTheWavesThatTheyMake) {
  const CostModel model = tile_model(OpKind::MatmulAllReduce);
  const Cut fine{std::vector<std::int64_t>(33, 256)}, waves{{1024, 1024, 1024, 1024, 1024, 1024, 1024, 1280}};
  EXPECT_DOUBLE_EQ(makespan_us(model, fine), makespan_us(model, waves));
  // The links start after the first wave and then are busy with all rows until the end.
  EXPECT_NEAR(makespan_us(model, waves), 0.04 * 1024 + 0.05 * 8448, 1e-9);
  const Plan plan = predict_cut(model.op, model, fine).value();
  ASSERT_EQ(plan.timeline.first.size(), 33U); // every block still has its spans
  ASSERT_TRUE(plan.validate()) << plan.validate().error().text();
  EXPECT_DOUBLE_EQ(plan.timeline.second[0].start_us, plan.timeline.first[3].end_us);
  EXPECT_DOUBLE_EQ(plan.timeline.second.back().end_us, plan.timeline.makespan_us);
}

TEST(TileWaves, AReduceScatterPassesWaveByWaveHoweverItIsCut) {
  const CostModel model = tile_model(OpKind::MatmulReduceScatter);
  const double wave_us = 0.04 * 8448 / 8, message_us = 0.05 * 8448;
  EXPECT_NEAR(makespan_us(model, {{2112}}), wave_us + message_us, 1e-9);
  EXPECT_NEAR(makespan_us(model, {{1056, 1056}}), wave_us + message_us, 1e-9);
  CostModel few = model;
  few.op.m = 512; // less than a wave, so nothing overlaps
  EXPECT_NEAR(makespan_us(few, {{128}}), 0.04 * 512 + 0.05 * 512, 1e-9);
}

/// Nothing overlaps in such a cut, but its matmul does a part of the collective's sums, as in any other cut.
TEST(TileWaves, ACutOfLessThanTwoWavesSavesWhatACutsBlocksDo) {
  CostModel model = tile_model(OpKind::MatmulAllReduce);
  model.op.m = 1024;
  model.variants.front().communication.slowdown = 0.6;
  EXPECT_NEAR(makespan_us(model, {{512, 512}}), (0.04 + 0.6 * 0.05) * 1024, 1e-9);
  EXPECT_NEAR(makespan_us(model, {{1024}}), (0.04 + 0.05) * 1024, 1e-9);
}

/// Such a cut is planned where its communication's factor is below 1, and only there.
TEST(TileWaves, HalvesOfLessThanTwoWavesArePlannedWhereTheirSumsAreCheaper) {
  CostModel model = tile_model(OpKind::MatmulAllReduce);
  PlanOptions options = default_options_on(model.fingerprint);
  options.require_significant_gain = false;
  for (const double factor : {0.6, 1.0}) {
    model.variants.front().communication.slowdown = factor;
    const PlanRanges ranges = plan_ranges(model.op, 1, 8448, model, options).value();
    for (const std::int64_t m : {256, 384, 512, 950, 1024, 1500, 1896}) {
      model.op.m = m;
      const Plan range_plan = plan_at(ranges, m).value();
      for (const char* strategy : {"search", "free"}) {
        options.strategy = strategy;
        const Plan plan = make_plan(model.op, model, options).value();
        EXPECT_NEAR(plan.makespan.us, (0.04 + factor * 0.05) * static_cast<double>(m), 1e-9) << strategy << " " << m;
        EXPECT_EQ(plan.is_cut(), factor < 1) << strategy << " " << m;
        EXPECT_LE(makespan_us(model, range_plan.cut), plan.makespan.us * (1 + kRangeTolerance)) << m;
      }
      options.strategy = "search";
    }
  }
  model.variants.front().communication.slowdown = 0.6;
  model.op.m = 128; // half of these rows is less than the alignment
  EXPECT_FALSE(make_plan(model.op, model, options).value().is_cut());
  model.op.m = 1024;
  options.min_block_rows = 640;
  EXPECT_FALSE(make_plan(model.op, model, options).value().is_cut());
}

TEST(TileWaves, OnlyAVariantWithSlicesOverlapsUncut) {
  CostModel model = tile_model(OpKind::MatmulReduceScatter);
  model.variants.front().variant.fields.clear();
  const Plan plan = predict_cut(model.op, model, {{2112}}).value();
  EXPECT_EQ(plan.schedule, Schedule::Serial);
  EXPECT_NEAR(plan.makespan.us, plan.serial_us, 1e-9);
}

TEST(TileWaves, ThePlanIsTheFastestCutAndHasNoBlockOfLessThanAWave) {
  for (const OpKind kind : {OpKind::MatmulAllReduce, OpKind::MatmulReduceScatter})
    for (const double slowdown : {1.0, 1.2})
      for (const char* strategy : {"search", "free"}) {
        const CostModel model = tile_model(kind, slowdown);
        PlanOptions options = default_options_on(model.fingerprint);
        options.strategy = strategy;
        options.require_significant_gain = false;
        const Plan plan = make_plan(model.op, model, options).value();
        const auto waves = tile_waves(model.op, plan.variant, model.fingerprint).value();
        EXPECT_GE(std::ranges::min(plan.cut.block_rows), waves.least_rows());
        double least_us = std::numeric_limits<double>::infinity();
        for (const Cut& cut : enumerate_cuts(model.op, options).value())
          least_us = std::min(least_us, makespan_us(model, cut));
        EXPECT_LE(plan.makespan.us, least_us * (1 + 1e-9)) << strategy << " " << slowdown;
        const Plan predicted = predict_cut(model.op, model, plan.cut).value();
        EXPECT_NEAR(plan.makespan.us, predicted.makespan.us, 1e-9 * plan.makespan.us);
      }
}

} // namespace
} // namespace mc2::planner::tile_waves_test
