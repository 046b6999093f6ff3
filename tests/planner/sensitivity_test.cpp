#include "mc2/planner/sensitivity.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "mc2/planner/routing.hpp"
#include "support/models.hpp"

namespace mc2::planner::sensitivity_test {
namespace {

/// 256 rows in blocks of at least 128, so that the only decisions are "uncut" and "2 x 128". 1 us of compute a row;
/// 1 us of communication a row (64 f32 columns are 256 bytes) and `latency_us` a message:
///   uncut   256 + (latency + 256)
///   cut     128 + max(128, latency + 128) + (latency + 128)
CostModel two_block_model(double latency_us) {
  const OpSpec op = testing::all_reduce_op(256, 64, 64, DType::F32, 2);
  return testing::model_of(op, testing::affine(CurveAxis::Rows, 0, 1),
                           testing::affine(CurveAxis::Bytes, latency_us, 1.0 / 256));
}

Sensitivity study(const CostModel& model, const PlanOptions& options = {}) {
  const Plan plan = make_plan(model.op, model, options).value();
  return analyse_sensitivity(plan, model, options).value();
}

ParameterSensitivity of(const Sensitivity& sensitivity, Parameter parameter) {
  const auto& all = sensitivity.parameters;
  return *std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.parameter == parameter; });
}

/// Expects one flip, at `expected` or just beyond it: a bisection stops within 1 % of the change from `today`.
void expect_flip(const Excursion& excursion, double today, double expected, FlipKind kind) {
  ASSERT_EQ(excursion.flips.size(), 1U);
  const Flip& flip = excursion.flips.front();
  EXPECT_EQ(flip.kind, kind);
  EXPECT_NEAR(flip.value, expected, 0.0101 * std::abs(flip.value - today));
  EXPECT_FALSE(flip.text.empty());
}

TEST(Sensitivity, LatencyAtWhichCuttingStopsToPay) {
  // The cut takes 384 + 2 latency, uncut 512 + latency. The cut is faster up to 128 us; there the plans tie, and the
  // uncut one has fewer blocks.
  const auto latency = of(study(two_block_model(10)), Parameter::CommunicationLatency);
  EXPECT_DOUBLE_EQ(latency.value, 10);
  expect_flip(latency.higher, 10, 128, FlipKind::CutOrUncut);
  EXPECT_EQ(latency.higher.flips[0].cut.text(), "uncut");
  EXPECT_EQ(latency.higher.flips[0].text.substr(0, 20), "latency of a message");
  EXPECT_TRUE(latency.lower.flips.empty());
  EXPECT_DOUBLE_EQ(latency.lower.end_value, 0);
}

TEST(Sensitivity, LatencyAtWhichCuttingStartsToPay) {
  const auto latency = of(study(two_block_model(200)), Parameter::CommunicationLatency);
  expect_flip(latency.lower, 200, 128, FlipKind::CutOrUncut);
  EXPECT_EQ(latency.lower.flips[0].cut.text(), "2 x 128");
  EXPECT_TRUE(latency.higher.flips.empty());
}

TEST(Sensitivity, CommunicationTime) {
  // Latency 100, communication times g: the cut takes 128 + 2 * 228 g, uncut 256 + 356 g. The cut is faster up to g =
  // 1.28. Below g = 128/228 the cut takes 256 + 228 g.
  const auto time = of(study(two_block_model(100)), Parameter::CommunicationTime);
  expect_flip(time.higher, 1, 1.28, FlipKind::CutOrUncut);
  EXPECT_TRUE(time.lower.flips.empty());
  EXPECT_DOUBLE_EQ(time.lower.end_value, 0.25);
  // The cut over uncut, (128 + 456 g) / (256 + 356 g), is 1.01 at g = 130.56 / 96.44, and 1952 / 1680 at g = 4.
  EXPECT_NEAR(time.higher.one_percent_value.value(), 130.56 / 96.44, 0.01 * 0.36);
  EXPECT_NEAR(time.higher.end_loss.value(), 1952.0 / 1680 - 1, 1e-12);
  EXPECT_DOUBLE_EQ(time.lower.end_loss.value(), 0);
}

TEST(Sensitivity, ComputeTime) {
  // Latency 100, compute times f <= 228/128: the cut takes 128 f + 456, uncut 256 f + 356. The cut is faster down to f
  // = 100/128.
  const auto time = of(study(two_block_model(100)), Parameter::ComputeTime);
  expect_flip(time.lower, 1, 100.0 / 128, FlipKind::CutOrUncut);
  EXPECT_NE(time.lower.flips[0].text.find("faster: uncut instead of 2 blocks"), std::string::npos);
  EXPECT_TRUE(time.higher.flips.empty());
}

TEST(Sensitivity, CommunicationSlowdown) {
  // Latency 100, slow-down s: while the second block computes for 128 us, the first message of 228 us advances by 128 /
  // s. The cut takes 256 + (228 - 128 / s) + 228, uncut 612. The cut is faster up to s = 1.28.
  const auto slowdown = of(study(two_block_model(100)), Parameter::CommunicationSlowdown);
  expect_flip(slowdown.higher, 1, 1.28, FlipKind::CutOrUncut);
  EXPECT_DOUBLE_EQ(slowdown.lower.end_value, 1);
  EXPECT_FALSE(slowdown.lower.end_loss.has_value());
}

TEST(Sensitivity, SlowdownThatNeverDecides) {
  // Latency 10: the cut takes 532 - 128 / s, uncut 522. The cut is faster up to s = 12.8, and 4 is the most that is
  // tried.
  const auto slowdown = of(study(two_block_model(10)), Parameter::CommunicationSlowdown);
  EXPECT_TRUE(slowdown.higher.flips.empty());
  EXPECT_DOUBLE_EQ(slowdown.higher.end_value, 4);
  EXPECT_NE(slowdown.text.find("no other decision up to"), std::string::npos);
}

TEST(Sensitivity, FixedCostOfABlock) {
  const auto sensitivity = study(two_block_model(10));
  // Uncut takes 522. With a fixed cost F of communication, the cut takes 404 + 2 F: faster up to 59. With F of compute,
  // beyond 10, it takes 394 + 2 F: faster up to 64.
  expect_flip(of(sensitivity, Parameter::CommunicationBlockFixed).higher, 0, 59, FlipKind::CutOrUncut);
  expect_flip(of(sensitivity, Parameter::ComputeBlockFixed).higher, 0, 64, FlipKind::CutOrUncut);
}

TEST(Sensitivity, ImbalanceIsWhatThePlannerSaysOfSkewedCounts) {
  OpSpec op = testing::all_reduce_op(2048, 64, 64, DType::F32, 4);
  op.kind = OpKind::AllToAllMatmul;
  for (const double latency_us : {10.0, 120.0, 250.0, 600.0}) {
    SCOPED_TRACE(latency_us);
    const auto model = testing::model_of(op, testing::affine(CurveAxis::Rows, 0, 0.25),
                                         testing::affine(CurveAxis::Bytes, latency_us, 1.0 / 1024));
    const PlanOptions options;
    const auto found = of(study(model, options), Parameter::Imbalance);
    EXPECT_EQ(found.value, 1);
    EXPECT_EQ(found.lower.end_value, 1);
    EXPECT_EQ(found.higher.end_value, 4);
    const auto is_cut = [&](double imbalance) {
      const auto routed = with_imbalance(op, imbalance).value();
      PlanOptions asked = options;
      asked.counts = routed.counts;
      return make_plan(routed.op, model, asked).value().cut.block_rows.size() > 1;
    };
    std::optional<double> flip;
    for (double imbalance = 1.005; imbalance <= 4 && !flip; imbalance += 0.005)
      if (is_cut(imbalance) != is_cut(1)) flip = imbalance;
    const auto& flips = found.higher.flips;
    const bool has_flip = !flips.empty() && flips.back().kind == FlipKind::CutOrUncut;
    ASSERT_EQ(has_flip, flip.has_value()) << found.text;
    if (!flip) continue;
    EXPECT_NEAR(flips.back().value, *flip, 0.006 + 0.01 * (*flip - 1)) << found.text;
  }
  EXPECT_TRUE(std::ranges::none_of(study(two_block_model(10)).parameters,
                                   [](const auto& each) { return each.parameter == Parameter::Imbalance; }));
}

TEST(Sensitivity, RowsMoveInStepsOfTheAlignment) {
  // Latency 100. m = 128 cannot be cut. m = 384: 128 + 256 takes 740 us, 3 x 128 takes 812, uncut 868. m = 512: 2 x 128
  // + 256 takes 128 + 2 * 228 + 356 = 940 us, 2 x 256 takes 968, uncut 1124.
  const auto rows = of(study(two_block_model(100)), Parameter::Rows);
  ASSERT_EQ(rows.lower.flips.size(), 1U);
  EXPECT_DOUBLE_EQ(rows.lower.flips[0].value, 128);
  ASSERT_EQ(rows.higher.flips.size(), 1U);
  EXPECT_DOUBLE_EQ(rows.higher.flips[0].value, 512);
  EXPECT_EQ(rows.higher.flips[0].cut.block_rows, (std::vector<std::int64_t>{128, 128, 256}));
  EXPECT_FALSE(rows.higher.flips[0].kept_us.has_value());
}

TEST(Sensitivity, ColumnsMoveWhereTheyAreCut) {
  const OpSpec op = testing::all_reduce_op(16, 512, 64, DType::F32, 2);
  const CostModel model =
      testing::model_of(op, testing::affine(CurveAxis::Columns, 0, 1), testing::affine(CurveAxis::Bytes, 0, 1.0 / 64));
  const auto columns = of(study(model), Parameter::Columns);
  EXPECT_DOUBLE_EQ(columns.value, 512);
  EXPECT_EQ(columns.unit, "columns");
  EXPECT_GT(columns.higher.end_value, 512);
}

TEST(Sensitivity, WeakerChangesComeBeforeStrongerOnes) {
  const CostModel model = testing::worked_example_model();
  for (const auto& parameter : study(model).parameters)
    for (const Excursion* excursion : {&parameter.lower, &parameter.higher})
      for (std::size_t i = 1; i < excursion->flips.size(); ++i) {
        const Flip &near = excursion->flips[i - 1], &far = excursion->flips[i];
        EXPECT_LT(static_cast<int>(near.kind), static_cast<int>(far.kind)) << parameter.text;
        EXPECT_LE(std::abs(near.value - parameter.value), std::abs(far.value - parameter.value)) << parameter.text;
      }
}

TEST(Sensitivity, EveryFlipIsConfirmedByPlanningThere) {
  const CostModel model = testing::worked_example_model();
  const auto time = of(study(model), Parameter::CommunicationTime);
  ASSERT_FALSE(time.higher.flips.empty());
  for (const Flip& flip : time.higher.flips) {
    CostModel changed = model;
    changed.variants[0].communication.curve = scaled(changed.variants[0].communication.curve, flip.value);
    EXPECT_EQ(make_plan(model.op, changed, {}).value().cut, flip.cut);
  }
}

// The matmul of a rank's own shard may have a curve of its own.
TEST(Sensitivity, ComputeTimeIsThatOfTheOwnShardToo) {
  OpSpec op = testing::all_reduce_op(8192, 3072, 4096, DType::F16, 4);
  op.kind = OpKind::AllGatherMatmul;
  CostModel model =
      testing::model_of(op, testing::affine(CurveAxis::Rows, 5, 0.1), testing::affine(CurveAxis::Bytes, 10, 2.7e-6));
  model.variants[0].local_compute = testing::affine(CurveAxis::Rows, 5, 0.1 / 3);
  const auto time = of(study(model), Parameter::ComputeTime);
  ASSERT_FALSE(time.lower.flips.empty() && time.higher.flips.empty());
  for (const Excursion* excursion : {&time.lower, &time.higher})
    for (const Flip& flip : excursion->flips)
      EXPECT_EQ(make_plan(op, scaled(model, flip.value, 1), {}).value().cut, flip.cut) << flip.text;
}

TEST(Sensitivity, APlanThatIsNotTheBestSaysWhatItLoses) {
  const CostModel model = two_block_model(10);
  const Plan uncut = predict_cut(model.op, model, model.variants[0].variant, Cut{{256}}).value();
  const Sensitivity sensitivity = analyse_sensitivity(uncut, model, {}).value();
  EXPECT_FALSE(sensitivity.is_best());
  EXPECT_FALSE(sensitivity.is_as_good());
  EXPECT_EQ(sensitivity.best_cut.text(), "2 x 128");
  EXPECT_NEAR(sensitivity.loss(), 522.0 / 404 - 1, 1e-12);
}

TEST(Sensitivity, EveryVariantIsChangedAlike) {
  // The times of the two variants differ by 1 % only: if just one of them were scaled, the other would win at once.
  CostModel model = two_block_model(10);
  model.variants.push_back(model.variants[0]);
  model.variants[1].variant.name = "other";
  model.variants[1].compute.curve = scaled(model.variants[1].compute.curve, 1.01);
  EXPECT_TRUE(of(study(model), Parameter::ComputeTime).higher.flips.empty());
}

TEST(Sensitivity, IsAFunctionOfItsArguments) {
  const CostModel model = testing::worked_example_model();
  EXPECT_EQ(study(model), study(model));
}

TEST(Sensitivity, ShapesAtTheLimitsAreStudied) {
  CostModel model = testing::worked_example_model();
  model.op.n = model.op.k = 64;
  for (const std::int64_t m : {std::int64_t{65}, std::int64_t{127}, std::int64_t{4099}, kMaxSize}) {
    OpSpec op = model.op;
    op.m = m;
    const Plan plan = make_plan(op, model, {}).value();
    const auto rows = of(analyse_sensitivity(plan, model, {}).value(), Parameter::Rows);
    EXPECT_GE(rows.lower.end_value, 65); // fewer rows are cut by columns
    EXPECT_LE(rows.higher.end_value, static_cast<double>(kMaxSize));
  }
}

TEST(Sensitivity, RefusesWhatTheModelDoesNotKnow) {
  const CostModel model = two_block_model(10);
  Plan plan = make_plan(model.op, model, {}).value();
  plan.variant.name = "elsewhere";
  EXPECT_EQ(analyse_sensitivity(plan, model, {}).error().code, ErrorCode::UnknownName);
  plan.op.n = 32;
  EXPECT_EQ(analyse_sensitivity(plan, model, {}).error().code, ErrorCode::OutOfRange);
}

TEST(Sensitivity, RefusesMoreBlocksThanAPlanMayHave) {
  CostModel model = two_block_model(10);
  Plan plan = make_plan(model.op, model, {}).value();
  plan.cut.block_rows.assign(kMaxBlockCount + 1, 1);
  const auto refused = analyse_sensitivity(plan, model, {});
  EXPECT_EQ(refused.error().code, ErrorCode::Infeasible);
  EXPECT_NE(refused.error().message.find("1025 blocks"), std::string::npos);
}

} // namespace
} // namespace mc2::planner::sensitivity_test
