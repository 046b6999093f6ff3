#include "mc2/profiler/refine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "mc2/planner/planner.hpp"
#include "support/models.hpp"

namespace mc2::profiler::refine_test {
namespace {

using planner::CostModel;
using planner::CurveAxis;
using planner::Cut;
using planner::MeasuredCut;
using ::testing::HasSubstr;

/// A model of 4096 rows whose lanes are balanced.
CostModel model_with(double compute_slowdown, double communication_slowdown, double fixed_us) {
  CostModel model = mc2::testing::model_of(mc2::testing::all_reduce_op(4096, 1024, 512, planner::DType::F32, 2),
                                           mc2::testing::affine(CurveAxis::Rows, 20, 0.5),
                                           mc2::testing::affine(CurveAxis::Bytes, 30, 0.5 / 4096), compute_slowdown,
                                           communication_slowdown);
  model.variants[0].communication.fixed_us = fixed_us;
  return model;
}

/// The measurement of a cut, and of serial, on a machine that `truth` describes, now `drift` times slower than when it
/// was profiled.
MeasuredCut measure(const CostModel& truth, const Cut& cut, double drift = 1) {
  const auto& variant = truth.variants[0].variant;
  const auto plan = planner::predict_cut(truth.op, truth, variant, cut).value();
  return {{.fused_us = drift * plan.makespan.us, .serial_us = drift * plan.serial_us, .relative_error = 0.002},
          variant,
          cut};
}

double best_us(const CostModel& truth, const planner::PlanOptions& options) {
  double best = truth.variants[0].compute.curve.time_us(4096) * 10;
  for (const Cut& cut : planner::enumerate_cuts(truth.op, options).value())
    best = std::min(best, planner::predict_makespans(truth.op, truth, truth.variants[0].variant, {&cut, 1}).value()[0]);
  return best;
}

RefineSettings settings() {
  RefineSettings result;
  result.plan.require_significant_gain = false;
  return result;
}

TEST(Refine, SaysWhereToBeginWhenNothingWasMeasured) {
  const CostModel model = model_with(1.15, 1.15, 0);
  const auto refined = refine(model.op, model, {}, settings()).value();
  EXPECT_EQ(refined.next.size(), 3U);
  EXPECT_TRUE(refined.measured.empty());
  EXPECT_FALSE(refined.plan.is_cut());
  EXPECT_FALSE(refined.is_serial_measured);
}

TEST(Refine, ReachesTheBestCutOfAMachineThatItDoesNotKnow) {
  const CostModel truth = model_with(1.3, 1.05, 25), model = model_with(1.15, 1.15, 0);
  std::vector<MeasuredCut> measured;
  auto refined = refine(model.op, model, measured, settings()).value();
  for (int round = 0; round < 3; ++round) {
    for (const auto& next : refined.next) measured.push_back(measure(truth, next.cut));
    refined = refine(model.op, model, measured, settings()).value();
  }
  const double kept_us = planner::predict_cut(truth.op, truth, refined.plan.cut).value().makespan.us;
  EXPECT_LT(kept_us, 1.01 * best_us(truth, settings().plan));
  EXPECT_TRUE(refined.plan.validation.has_value());
  EXPECT_EQ(refined.plan.strategy, "refined");
}

TEST(Refine, SeparatesASlowMachineFromAnExpensiveCut) {
  const CostModel model = model_with(1.15, 1.15, 0);
  const std::vector<MeasuredCut> measured{measure(model, {{512, 1792, 1792}}, 1.3),
                                          measure(model, {{1024, 1024, 1024, 1024}}, 1.3)};
  const auto refined = refine(model.op, model, measured, settings()).value();
  EXPECT_NEAR(refined.serial_us, 1.3 * measure(model, {{4096}}).serial_us, 1);
  for (const auto& cut : refined.measured) EXPECT_NEAR(cut.us, cut.measured_us, 0.01 * cut.measured_us);
  EXPECT_NEAR(refined.factors[0].after, 1.15, 0.05);
}

TEST(Refine, TakesTheCutsForRightWhereOnlyTheWholeCollectiveIsSlowerThanItsCurve) {
  // As in the published example: the uncut all-reduce took 1071 us, the published curve says 931 us (1.15 times less),
  // and the cut's time agrees with the curve.
  const CostModel model = model_with(1, 1, 0);
  MeasuredCut cut = measure(model, {{512, 1792, 1792}});
  cut.serial_us = 0;
  cut.compute_us = 20 + 0.5 * 4096;
  cut.communication_us = 1.15 * (30 + 0.5 * 4096);
  const auto refined = refine(model.op, model, std::vector{cut}, settings()).value();
  EXPECT_NEAR(refined.measured[0].us, cut.fused_us, 0.01 * cut.fused_us);
  EXPECT_NEAR(refined.serial_us, cut.compute_us + cut.communication_us, 1);
}

TEST(Refine, SerialThatWasTimedIsNotMadeUpOfItsParts) {
  const CostModel model = model_with(1.15, 1.15, 0);
  MeasuredCut cut = measure(model, {{512, 1792, 1792}});
  cut.compute_us = 20 + 0.5 * 4096;
  cut.communication_us = 30 + 0.5 * 4096;
  cut.serial_us = 0.95 * cut.fused_us;
  const auto refined = refine(model.op, model, std::vector{cut}, settings()).value();
  EXPECT_NEAR(refined.serial_us, cut.serial_us, 1e-6);
  EXPECT_FALSE(refined.plan.is_cut()) << refined.plan.reason;
}

TEST(Refine, KeepsSerialWhereEveryMeasuredCutIsSlower) {
  const CostModel model = model_with(1.15, 1.15, 0);
  MeasuredCut slow = measure(model, {{2048, 2048}});
  slow.fused_us = 1.02 * slow.serial_us;
  const auto refined = refine(model.op, model, std::vector{slow}, settings()).value();
  EXPECT_FALSE(refined.plan.is_cut());
  EXPECT_THAT(refined.plan.reason, HasSubstr("do not cut"));
  EXPECT_TRUE(refined.accounts.empty());
}

/// measure() with the total times of each lane's blocks as well.
MeasuredCut measure_lanes(const CostModel& truth, const Cut& cut) {
  MeasuredCut result = measure(truth, cut);
  const auto us = planner::predict_lane_times(truth.op, truth, result.variant, cut).value();
  result.compute_blocks_us = us.compute_us;
  result.communication_blocks_us = us.communication_us;
  return result;
}

TEST(Refine, TheAccountsOfACutSumToItsMeasuredTime) {
  const CostModel truth = model_with(1.2, 1.1, 12), model = model_with(1.15, 1.15, 0);
  for (const bool has_lanes : {false, true}) {
    const Cut blocks{{512, 1792, 1792}};
    const MeasuredCut cut = has_lanes ? measure_lanes(truth, blocks) : measure(truth, blocks);
    const auto refined = refine(model.op, model, std::vector{cut}, settings()).value();
    ASSERT_EQ(refined.accounts.size(), 2U);
    for (const MeasuredAccount& account : refined.accounts) {
      EXPECT_NEAR(account.uncut_us + account.small_block_us + account.overhead_us + account.contention_us +
                      account.waiting_us + account.unexplained_us,
                  cut.fused_us, 1e-6 * cut.fused_us);
      EXPECT_EQ(account.is_timed, has_lanes);
    }
    if (!has_lanes) continue;
    EXPECT_EQ(refined.accounts[0].blocks_us, cut.compute_blocks_us);
    EXPECT_EQ(refined.accounts[1].blocks_us, cut.communication_blocks_us);
  }
}

TEST(Refine, BlockTimesTellTheLanesApart) {
  const CostModel truth = model_with(1.35, 1.02, 0);
  CostModel model = model_with(1.15, 1.15, 0);
  for (auto* lane : {&model.variants[0].compute, &model.variants[0].communication})
    lane->curve.quality.cross_validated_rms = 0.01;
  const Cut cut{{512, 1792, 1792}};
  const auto without = refine(model.op, model, std::vector{measure(truth, cut)}, settings()).value();
  const auto with = refine(model.op, model, std::vector{measure_lanes(truth, cut)}, settings()).value();
  const auto error = [](const Refinement& refined) {
    return std::abs(refined.factors[0].after - 1.35) + std::abs(refined.factors[1].after - 1.02);
  };
  EXPECT_LT(error(with), 0.08);
  EXPECT_LT(error(with), 0.5 * error(without));
  EXPECT_TRUE(with.factors[0].is_determined);
  EXPECT_TRUE(with.factors[1].is_determined);
}

TEST(Refine, OneLanesBlocksMayBeTimedAlone) {
  const CostModel truth = model_with(1.15, 1.4, 0), model = model_with(1.15, 1.15, 0);
  MeasuredCut cut = measure_lanes(truth, {{512, 1792, 1792}});
  cut.compute_blocks_us = 0;
  const auto refined = refine(model.op, model, std::vector{cut}, settings()).value();
  ASSERT_EQ(refined.accounts.size(), 2U);
  EXPECT_FALSE(refined.accounts[0].is_timed);
  EXPECT_TRUE(refined.accounts[1].is_timed);
  EXPECT_GT(refined.factors[1].after, 1.2);
}

TEST(Refine, BlocksThatTakeLongerThanTheWholeAreRefused) {
  const CostModel model = model_with(1.15, 1.15, 0);
  MeasuredCut cut = measure_lanes(model, {{512, 1792, 1792}});
  cut.communication_blocks_us = 1.2 * cut.fused_us;
  const auto refined = refine(model.op, model, std::vector{cut}, settings());
  ASSERT_FALSE(refined.ok());
  EXPECT_EQ(refined.error().code, ErrorCode::CannotFit);
  EXPECT_THAT(refined.error().message, HasSubstr("longer than the whole"));
}

TEST(Refine, OneUncutRunIsAMeasurementOfSerial) {
  const CostModel model = model_with(1.15, 1.15, 0);
  MeasuredCut uncut = measure(model, {{4096}});
  uncut.serial_us = 0;
  uncut.fused_us = 5000;
  const auto refined = refine(model.op, model, std::vector{uncut}, settings()).value();
  EXPECT_TRUE(refined.is_serial_measured);
  EXPECT_NEAR(refined.serial_us, 5000, 1e-6);
  EXPECT_TRUE(refined.measured.empty());
}

TEST(Refine, AnUncutRunThatIsNotAsLongAsTheSerialBesideItIsNone) {
  const CostModel model = model_with(1.15, 1.15, 0);
  MeasuredCut uncut = measure(model, {{4096}});
  const std::vector good{uncut};
  EXPECT_TRUE(refine(model.op, model, good, settings()));
  uncut.fused_us = 100;
  uncut.serial_us = 9000;
  const auto refused = refine(model.op, model, std::vector{uncut}, settings());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "serial_us");
  EXPECT_THAT(refused.error().message, HasSubstr("fused_us, 100.0 us, and its serial_us, 9 ms, are of the same thing"));
}

TEST(Refine, RunsOfOneCutCountAsOne) {
  const CostModel model = model_with(1.15, 1.15, 0);
  MeasuredCut fast = measure(model, {{2048, 2048}}), slow = fast;
  fast.fused_us *= 0.99;
  slow.fused_us *= 1.01;
  const auto refined = refine(model.op, model, std::vector{fast, slow}, settings()).value();
  ASSERT_EQ(refined.measured.size(), 1U);
  EXPECT_NEAR(refined.measured[0].measured_us, (fast.fused_us + slow.fused_us) / 2, 1e-6 * fast.fused_us);
  EXPECT_EQ(refined.plan.validation->pair_count, 2);
}

TEST(Refine, RunsOfOneCutThatDisagreeAreBelievedLess) {
  const CostModel model = model_with(1.15, 1.15, 0);
  const MeasuredCut good = measure(model, {{2048, 2048}});
  MeasuredCut slow = good;
  slow.fused_us *= 3;
  const auto width_of = [&](const std::vector<MeasuredCut>& runs) {
    const auto refined = refine(model.op, model, runs, settings()).value();
    EXPECT_LE(refined.measured[0].low_us, 1.02 * good.fused_us);
    EXPECT_GE(refined.measured[0].high_us, 0.98 * good.fused_us);
    return refined.measured[0].high_us - refined.measured[0].low_us;
  };
  EXPECT_GT(width_of({good, slow}), 5 * width_of({good, good}));
}

TEST(Refine, AnOddRunAmongSeveralOfOneCutIsLeftOut) {
  const CostModel model = model_with(1.15, 1.15, 0);
  const MeasuredCut good = measure(model, {{2048, 2048}});
  for (const double factor : {0.5, 3.0}) {
    MeasuredCut odd = good;
    odd.fused_us *= factor;
    const auto refined = refine(model.op, model, std::vector{odd, good, good}, settings()).value();
    EXPECT_NEAR(refined.measured[0].measured_us, good.fused_us, 1e-6 * good.fused_us);
    EXPECT_NEAR(refined.plan.makespan.us, good.fused_us, 0.02 * good.fused_us);
  }
}

TEST(Refine, ThePlansTimeLiesWithinItsInterval) {
  const CostModel model = model_with(1.15, 1.15, 0), truth = model_with(1.1, 1.05, 5);
  std::vector<MeasuredCut> measured;
  for (const Cut& cut : {Cut{{2048, 2048}}, Cut{{1024, 1024, 2048}}}) measured.push_back(measure(truth, cut));
  measured[0].fused_us *= 0.93; // which no factor explains
  const auto makespan = refine(model.op, model, measured, settings()).value().plan.makespan;
  EXPECT_LT(makespan.low_us, makespan.us);
  EXPECT_GT(makespan.high_us, makespan.us);
}

TEST(Refine, AFurtherCutIsForetoldNoBetterThanTheOthersWereMeasured) {
  const CostModel model = model_with(1.15, 1.15, 0);
  const auto interval_of = [&](double relative_error) {
    std::vector measured{measure(model, {{2048, 2048}}), measure(model, {{1024, 3072}})};
    for (MeasuredCut& cut : measured) cut.relative_error = relative_error;
    return refine(model.op, model, measured, settings()).value().model.anchored_interval.value();
  };
  EXPECT_GT(interval_of(0.1), 3 * interval_of(0.01));
}

TEST(Refine, IsSettledWhenNothingElseIsWorthARun) {
  const CostModel model = model_with(1.15, 1.15, 0);
  std::vector<MeasuredCut> measured;
  bool is_settled = false;
  for (int round = 0; round < 20 && !is_settled; ++round) {
    const auto refined = refine(model.op, model, measured, settings()).value();
    for (const auto& next : refined.next) measured.push_back(measure(model, next.cut));
    is_settled = refined.next.empty();
  }
  EXPECT_TRUE(is_settled);
  EXPECT_LT(measured.size(), 50U); // out of hundreds of cuts
}

TEST(Refine, NoCutIsBelievedFasterThanItsLanesAllow) {
  const CostModel model = model_with(1, 1, 0);
  // 32 short blocks cannot be that fast, because each block pays 20 us and 30 us.
  MeasuredCut wrong = measure(model, {std::vector<std::int64_t>(32, 128)});
  wrong.fused_us *= 0.6;
  const auto refined = refine(model.op, model, std::vector{wrong}, settings()).value();
  const double ideal_us = 30 + 0.5 * 4096;
  for (const auto& next : refined.next) EXPECT_GT(next.us, 0.94 * ideal_us) << next.cut.text();
}

/// One wrong measurement changes nothing: the plan, the factors and the other beliefs stay as they are without it.
TEST(Refine, SetsACutAsideThatTheOthersContradict) {
  const CostModel model = model_with(1, 1, 0), truth = model_with(1.1, 1.05, 5);
  std::vector<MeasuredCut> measured;
  for (const Cut& cut : {Cut{{2048, 2048}}, Cut{{1024, 1024, 2048}}, Cut{{512, 1024, 1024, 1536}}})
    measured.push_back(measure(truth, cut));
  const auto right = refine(model.op, model, measured, settings()).value();
  for (const double factor : {0.5, 2.0}) {
    std::vector<MeasuredCut> with_wrong = measured;
    with_wrong.push_back(measure(truth, {std::vector<std::int64_t>(8, 512)}));
    with_wrong.back().fused_us *= factor;
    const auto refined = refine(model.op, model, with_wrong, settings()).value();
    EXPECT_EQ(refined.plan.cut, right.plan.cut) << factor;
    EXPECT_EQ(refined.factors[0].after, right.factors[0].after) << factor;
    EXPECT_FALSE(refined.measured.back().is_believed) << factor;
    EXPECT_TRUE(refined.measured.front().is_believed) << factor;
  }
}

TEST(Refine, ACutThatIsSetAsideIsNotThePlan) {
  const CostModel model = model_with(1, 1, 0);
  MeasuredCut wrong = measure(model, {{2048, 2048}});
  wrong.fused_us *= 0.4;
  const auto refined = refine(model.op, model, std::vector{wrong}, settings()).value();
  EXPECT_FALSE(refined.measured.front().is_believed);
  EXPECT_FALSE(refined.has_usable_cut());
  EXPECT_EQ(refined.plan.reason, "do not cut: nothing usable was measured yet");
  EXPECT_FALSE(refined.plan.is_cut());
  EXPECT_TRUE(refined.accounts.empty());
}

TEST(Refine, AssumptionsStandInThePlaceOfTheModels) {
  const CostModel model = model_with(1.15, 1.15, 0), slow = model_with(2, 2, 0);
  RefineSettings asked = settings();
  asked.plan.contention = planner::LaneContention{2, 2};
  EXPECT_EQ(refine(model.op, model, {}, asked).value().next.front().us,
            refine(slow.op, slow, {}, settings()).value().next.front().us);
}

TEST(Refine, TooManyCutsAreRefusedAtOnce) {
  const CostModel model = model_with(1.15, 1.15, 0);
  std::vector<MeasuredCut> measured;
  for (std::int64_t first = 1; first <= 300; ++first)
    measured.push_back({{3000.0}, model.variants[0].variant, {{first, 4096 - first}}});
  EXPECT_EQ(refine(model.op, model, measured, settings()).error().code, ErrorCode::InvalidSpec);
}

TEST(Refine, UncutTimesInAnotherUnitAreRefused) {
  const CostModel model = model_with(1.15, 1.15, 0);
  const auto message_of = [&](const MeasuredCut& cut) {
    const auto refined = refine(model.op, model, std::vector<MeasuredCut>{cut}, settings());
    return refined ? "" : refined.error().text();
  };
  const auto& variant = model.variants[0].variant;
  // The matmul takes 20 + 0.5 x 4096 = 2068 us, the collective 30 + 0.5 x 4096 = 2078 us.
  EXPECT_THAT(message_of({{3000, 4.1}, variant, {{2048, 2048}}}),
              HasSubstr("its serial_us, 4.1 us, is far below what the collective alone takes, 2078 us; are these ms?"));
  EXPECT_THAT(message_of({{4.1}, variant, {{4096}}}), HasSubstr("its fused_us, 4.1 us, is far below"));
  EXPECT_THAT(message_of({{3000, 0, 2.068, 2078}, variant, {{2048, 2048}}}),
              HasSubstr("its compute_us, 2.068 us, is far below what the matmul alone takes, 2068 us; are these ms?"));
  EXPECT_THAT(message_of({{3000, 4.1e6}, variant, {{2048, 2048}}}), HasSubstr("is far above")); // ns
  EXPECT_EQ(message_of({{3000, 4100, 2060, 2070}, variant, {{2048, 2048}}}), "");
}

TEST(Refine, RefusesWhatIsNoMeasurement) {
  const CostModel model = model_with(1.15, 1.15, 0);
  const auto error_of = [&](double fused_us, double serial_us, Cut cut) {
    return refine(model.op, model,
                  std::vector<MeasuredCut>{{{fused_us, serial_us}, model.variants[0].variant, std::move(cut)}},
                  settings())
        .error();
  };
  const Error without_time = error_of(0, 0, {{2048, 2048}});
  EXPECT_EQ(without_time.code, ErrorCode::CannotFit);
  EXPECT_THAT(without_time.message, HasSubstr("fused_us: is 0 us; legal: 1e-6 to 1e15"));
  EXPECT_EQ(error_of(std::nan(""), 0, {{2048, 2048}}).code, ErrorCode::CannotFit);
  EXPECT_EQ(error_of(100, -1, {{2048, 2048}}).code, ErrorCode::CannotFit);
  EXPECT_EQ(error_of(100, 0, {{2048, 1024}}).code, ErrorCode::InvalidSpec);
  const std::vector<MeasuredCut> other{{{100}, {"other", {}}, {{2048, 2048}}}};
  EXPECT_FALSE(refine(model.op, model, other, settings()).ok());
}

} // namespace
} // namespace mc2::profiler::refine_test
