#include "mc2/planner/analytic_model.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "mc2/planner/planner.hpp"
#include "support/topologies.hpp"

namespace mc2::planner::analytic_model_test {
namespace {

using examples::topology;

OpSpec op_of(std::int64_t m, int ranks, DType dtype = DType::Bf16) {
  return {OpKind::MatmulAllReduce, m, 1000, 500, dtype, ranks};
}

TEST(AnalyticModel, HasAVariantForEveryAlgorithm) {
  const CostModel model = analytic_model(topology(), op_of(4096, 16)).value();
  ASSERT_EQ(model.variants.size(), 4u);
  EXPECT_EQ(model.variants[0].variant.name, "ring");
  EXPECT_EQ(model.variants[3].variant.name, "hierarchical");
  EXPECT_TRUE(model.validate().ok());
}

TEST(AnalyticModel, MatmulFollowsFromPeakAndEfficiency) {
  // A row has 2 * 1000 * 500 = 1e6 flop. 100 Tflop/s * 0.5 = 50e6 flop/us, so a row takes 0.02 us, after 4 us.
  const CostModel half = analytic_model(topology(), op_of(4096, 16)).value();
  EXPECT_NEAR(half.variants[0].compute.curve.time_us(100), 4 + 2, 1e-12);
  // The peak of f32 is a tenth of that, so a row takes 0.2 us.
  const CostModel full = analytic_model(topology(), op_of(4096, 16, DType::F32)).value();
  EXPECT_NEAR(full.variants[0].compute.curve.time_us(100), 4 + 20, 1e-12);
}

TEST(AnalyticModel, EveryOperatorKindHasItsCollective) {
  // Each of 16 ranks holds 256 of 4096 rows. Reduce-scatter: one row of the cut axis is 16 rows of the product, which
  // take 16 * 0.02 us.
  OpSpec op = op_of(4096, 16);
  op.kind = OpKind::MatmulReduceScatter;
  const CostModel scatter = analytic_model(topology(), op).value();
  EXPECT_NEAR(scatter.variants[0].compute.curve.time_us(256), 4 + 256 * 16 * 0.02, 1e-9);
  EXPECT_EQ(scatter.variants.size(), 3u);
  // All-gather: one row of the cut axis brings 15 rows, one from each other rank.
  op.kind = OpKind::AllGatherMatmul;
  const CostModel gather = analytic_model(topology(), op).value();
  EXPECT_NEAR(gather.variants[0].compute.curve.time_us(256), 4 + 256 * 15 * 0.02, 1e-9);
  // The two all-to-all kinds multiply as many rows as the two kinds above. The topology has two algorithms for their
  // collective.
  op.kind = OpKind::MatmulAllToAll;
  const CostModel combine = analytic_model(topology(), op).value();
  EXPECT_EQ(combine.variants[0].compute.curve, scatter.variants[0].compute.curve);
  EXPECT_EQ(combine.variants.size(), 2u);
  op.kind = OpKind::AllToAllMatmul;
  const CostModel dispatch = analytic_model(topology(), op).value();
  EXPECT_EQ(dispatch.variants[0].compute.curve, gather.variants[0].compute.curve);
  for (const CostModel& model : {scatter, gather, combine, dispatch}) {
    const Plan plan = make_plan(model.op, model, {}).value();
    EXPECT_LE(plan.makespan.us, plan.serial_us);
    EXPECT_EQ(plan.makespan.provenance, Provenance::Analytic);
  }
}

TEST(AnalyticModel, CurvesFollowTheCollectiveTimes) {
  const CostModel model = analytic_model(topology(), op_of(4096, 16)).value();
  for (double bytes = 1; bytes < 1e12; bytes *= 3.7) {
    const auto times = collective_times(topology(), {Collective::AllReduce, bytes, 16}).value();
    for (std::size_t i = 0; i < times.size(); ++i)
      EXPECT_NEAR(model.variants[i].communication.curve.time_us(bytes), times[i].us, 0.02 * times[i].us)
          << to_string(times[i].algorithm) << " " << bytes;
  }
}

TEST(AnalyticModel, PlanSaysWhereItsNumbersComeFrom) {
  const OpSpec op = op_of(8192, 16);
  const CostModel model = analytic_model(topology(), op).value();
  const Plan plan = make_plan(op, model, {}).value();
  EXPECT_EQ(plan.makespan.provenance, Provenance::Analytic);
  for (const std::string& text :
       {std::string("topology example"), plan.variant.name, std::string("published constants"), std::string("Tflop/s")})
    EXPECT_NE(plan.makespan.reason.find(text), std::string::npos) << text << ": " << plan.makespan.reason;
  Topology calibrated = topology();
  calibrated.calibration = "3 points";
  const Plan other = make_plan(op, analytic_model(calibrated, op).value(), {}).value();
  EXPECT_NE(other.makespan.reason.find("calibrated: 3 points"), std::string::npos);
}

TEST(AnalyticModel, MeasuredMatmulIsTakenOver) {
  CostCurve measured;
  measured.shape = AffineCurve{7, 0.5};
  measured.valid_min_x = 64;
  measured.valid_max_x = 8192;
  const CostModel model = analytic_model(topology(), op_of(4096, 16), measured).value();
  EXPECT_EQ(model.variants[0].compute.curve, measured);
  EXPECT_TRUE(model.variants[0].communication.curve.is_analytic);
  measured.axis = CurveAxis::Bytes;
  EXPECT_FALSE(analytic_model(topology(), op_of(4096, 16), measured).ok());
}

TEST(AnalyticModel, SpeedOfPoolingHasToBeMeasured) {
  OpSpec op{OpKind::EmbeddingAllToAll, 4096, 512, 20, DType::F32, 16};
  op.tables = {.table_count = 4, .row_count = 1000};
  const auto refused = analytic_model(topology(), op);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Infeasible);
  EXPECT_NE(refused.error().message.find("pooling"), std::string::npos);
}

TEST(AnalyticModel, AsksForAMeasuredMatmulWhereItsConstantsDoNotTellOne) {
  EXPECT_EQ(analytic_model(topology(), op_of(16, 16)).error().code, ErrorCode::Infeasible); // memory limits so few rows
  CostCurve columns;
  columns.axis = CurveAxis::Columns;
  columns.shape = AffineCurve{7, 0.5};
  columns.valid_max_x = 8192;
  EXPECT_TRUE(analytic_model(topology(), op_of(16, 16), columns));
  EXPECT_FALSE(analytic_model(topology(), op_of(128, 16), columns));
  EXPECT_EQ(analytic_model(topology(), op_of(4096, 16, DType::I8)).error().field, "dtype");
  EXPECT_EQ(analytic_model(topology(), op_of(4096, 16, DType::F8E4m3)).error().field, "dtype");
}

TEST(AnalyticModel, RefusesBadQuestions) {
  EXPECT_EQ(analytic_model(topology(), op_of(0, 16)).error().field, "m");
  EXPECT_EQ(analytic_model(topology(), op_of(128, 6)).error().field, "ranks");
  Topology bad = topology();
  bad.protocols[0].intra.gb_per_s = 0;
  EXPECT_EQ(analytic_model(bad, op_of(128, 16)).error().field, "topology.protocols[0].intra.gb_per_s");
}

TEST(AnalyticModel, ExtremeConstantsGiveAPlanOrATimeThatNoPlanMayHave) {
  Topology extreme = topology();
  extreme.node_count = 256;
  for (const bool is_slow : {true, false}) {
    const LinkCost link = is_slow ? LinkCost{kMaxLinkUs, kMinGbPerS, kMaxLinkUs} : LinkCost{0, kMaxGbPerS, 0};
    extreme.protocols[0] = {"extreme", is_slow ? kMaxLinkUs : 0, link, link, false};
    extreme.chunk_bytes = is_slow ? kMinChunkBytes : kMaxChunkBytes;
    extreme.compute.peak_tflop_per_s_16bit = is_slow ? kMinTflopPerS : kMaxTflopPerS;
    for (const std::int64_t m : {std::int64_t{65}, std::int64_t{1'000'000}}) {
      const OpSpec op = op_of(m, 1024);
      const auto model = analytic_model(extreme, op);
      if (is_slow && m > 65) { // 2 GB at 1 kB/s and 1 s a message take 63 years
        EXPECT_EQ(model.error().field, "variants[0].communication.curve");
        continue;
      }
      const Plan plan = make_plan(op, model.value(), {}).value();
      EXPECT_TRUE(std::isfinite(plan.makespan.us));
      EXPECT_LE(plan.makespan.us, plan.serial_us);
    }
  }
}

TEST(AnalyticModel, PlansForAThousandRanksAreNeverSlowerThanSerial) {
  EXPECT_TRUE(rc::check("never above uncut, and faster links never make a slower plan", [] {
    Topology slow = topology();
    slow.node_count = 256;
    slow.compute_slowdown = 1 + *rc::gen::inRange(0, 30) / 100.0;
    slow.communication_slowdown = 1 + *rc::gen::inRange(0, 30) / 100.0;
    slow.compute.peak_tflop_per_s_16bit = *rc::gen::inRange(1, 1000);
    OpSpec op = op_of(*rc::gen::inRange<std::int64_t>(65, 8192), 4 * *rc::gen::inRange(32, 257));
    op.n = *rc::gen::inRange<std::int64_t>(1, 8192);
    Topology fast = slow;
    fast.protocols[0].intra.gb_per_s *= 1 + *rc::gen::inRange(0, 300) / 100.0;
    fast.protocols[0].inter.gb_per_s *= 1 + *rc::gen::inRange(0, 300) / 100.0;
    const Plan before = make_plan(op, analytic_model(slow, op).value(), {}).value();
    const Plan after = make_plan(op, analytic_model(fast, op).value(), {}).value();
    RC_ASSERT(before.makespan.us <= before.serial_us * (1 + 1e-12));
    RC_ASSERT(before.makespan.us >= before.ideal_us * (1 - 1e-12));
    RC_ASSERT(after.makespan.us <= before.makespan.us * (1 + 1e-9));
  }));
}

} // namespace
} // namespace mc2::planner::analytic_model_test
