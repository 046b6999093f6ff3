#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "mc2/planner/planner.hpp"
#include "support/models.hpp"
#include "support/random_slices.hpp"

namespace mc2::planner::search_test {
namespace {

/// The least makespan of all cuts of the family and all variants, predicted one by one.
double brute_force_us(const CostModel& model, const OpSpec& op, const PlanOptions& options) {
  double best_us = 1e300;
  for (const auto& cut : enumerate_cuts(op, options).value())
    for (const auto& cost : model.variants)
      best_us = std::min(best_us, predict_cut(op, model, cost.variant, cut).value().makespan.us);
  return best_us;
}

TEST(Search, BeatsTheRecipeOnItsOwnExample) {
  const CostModel model = testing::worked_example_model();
  PlanOptions formula;
  formula.strategy = "formula";
  EXPECT_LE(make_plan(model.op, model, {}).value().makespan.us,
            make_plan(model.op, model, formula).value().makespan.us);
}

TEST(Search, DoesNotCutWhenSlowdownEatsTheOverlap) {
  // With both lanes twice as slow while overlapping, overlap gains nothing, and each block adds its fixed cost.
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.slowdown = model.variants[0].communication.slowdown = 2;
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_FALSE(plan.is_cut());
  EXPECT_DOUBLE_EQ(plan.makespan.us, plan.serial_us);
}

TEST(Search, ShowsTheUncutPlanAmongTheRunnersUp) {
  const CostModel model = testing::worked_example_model();
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_TRUE(plan.is_cut());
  EXPECT_TRUE(std::any_of(plan.runners_up.begin(), plan.runners_up.end(),
                          [](const RunnerUp& r) { return r.cut.block_rows.size() == 1; }));
  for (const auto& runner_up : plan.runners_up) EXPECT_FALSE(runner_up.reason.empty());
  std::set<std::pair<std::string, std::size_t>> seen{{plan.variant.text(), plan.cut.block_rows.size()}};
  for (const auto& runner_up : plan.runners_up)
    EXPECT_TRUE(seen.emplace(runner_up.variant.text(), runner_up.cut.block_rows.size()).second) << runner_up.cut.text();
}

/// A model of 1000 rows, with 100 us of matmul and 40 us of collective, that hands blocks over in 4 slices.
CostModel model_in_four_slices(double fixed_us) {
  CostModel model =
      testing::model_of(testing::all_reduce_op(1000, 1, 1, DType::F32, 4), testing::affine(CurveAxis::Rows, 0, 0.1),
                        testing::affine(CurveAxis::Bytes, 0, 0.01));
  model.variants[0].variant.fields["slices"] = "4";
  model.variants[0].compute.fixed_us = fixed_us;
  return model;
}

TEST(Search, AVariantWithSlicesOverlapsUncut) {
  // 1000 rows are 4 slices of 25 us of matmul and 10 us of collective. Only the last slice's collective, 10 us, is
  // exposed. A cut that hands over as soon needs 4 blocks, and pays the fixed cost of each.
  const CostModel model = model_in_four_slices(20);
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_FALSE(plan.is_cut());
  EXPECT_TRUE(plan.overlaps());
  EXPECT_DOUBLE_EQ(plan.serial_us, 140);   // a serial run hands nothing over
  EXPECT_DOUBLE_EQ(plan.makespan.us, 130); // 20 + 100 of matmul, then the last slice's 10
  EXPECT_NE(plan.reason.find("the lanes overlap as it is"), std::string::npos) << plan.reason;
}

TEST(Search, SlicesThatCostMoreThanTheyHideAreNotPassed) {
  // Handing over costs 50 us here, which is more than the 30 us that overlap. So the plan is serial, and says so.
  const CostModel model = model_in_four_slices(50);
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_DOUBLE_EQ(plan.makespan.us, 140);
  EXPECT_EQ(plan.reason.find("do not cut"), 0U) << plan.reason;
}

TEST(Search, CertificateAccountsForEveryCandidate) {
  const CostModel model = testing::worked_example_model();
  const Plan plan = make_plan(model.op, model, {}).value();
  const auto& certificate = plan.certificate.value();
  EXPECT_EQ(certificate.candidate_count, certificate.simulated_count + certificate.bounded_count);
  EXPECT_EQ(certificate.candidate_count, static_cast<std::int64_t>(enumerate_cuts(model.op, {}).value().size()));
}

TEST(Search, NoCutIsComparedOrShownTwice) {
  CostModel model = testing::worked_example_model();
  for (const std::int64_t m : {384, 1024, 4096, 5000}) {
    model.op.m = m;
    const auto cuts = enumerate_cuts(model.op, {}).value();
    for (std::size_t i = 0; i < cuts.size(); ++i)
      EXPECT_EQ(std::ranges::count(cuts, cuts[i]), 1) << m << ": " << cuts[i].text();
    const auto shown = make_plan(model.op, model, {}).value().runners_up;
    for (const RunnerUp& one : shown)
      EXPECT_EQ(std::ranges::count(shown, one.cut, &RunnerUp::cut), 1) << m << ": " << one.cut.text();
  }
}

TEST(Search, FasterVariantWins) {
  CostModel model = testing::worked_example_model();
  model.variants.push_back(model.variants[0]);
  model.variants[1].variant.name = "faster";
  model.variants[1].compute.curve = testing::affine(CurveAxis::Rows, 0, 600.0 / 4096);
  EXPECT_EQ(make_plan(model.op, model, {}).value().variant.name, "faster");
}

TEST(Search, ShapesWithoutALegalCutStayWhole) {
  const CostModel model = testing::worked_example_model();
  for (const std::int64_t m : {65, 100, 127, 128, 255}) {
    OpSpec op = model.op;
    op.m = m;
    const Plan plan = make_plan(op, model, {}).value();
    EXPECT_EQ(plan.cut.block_rows, std::vector<std::int64_t>{m});
  }
}

TEST(Search, HugeAxesAreSearchedInBoundedTime) {
  const CostModel model = testing::worked_example_model();
  OpSpec op = model.op;
  op.n = op.k = 64;
  op.m = kMaxSize;
  CostModel small = model;
  small.op.n = small.op.k = 64;
  const Plan plan = make_plan(op, small, {}).value();
  EXPECT_EQ(std::accumulate(plan.cut.block_rows.begin(), plan.cut.block_rows.end(), std::int64_t{0}), kMaxSize);
  EXPECT_NE(plan.certificate->text.find("coarser"), std::string::npos);
}

TEST(Search, ModelOfAnotherOperatorIsRefused) {
  const CostModel model = testing::worked_example_model();
  OpSpec op = model.op;
  op.n = 4096;
  EXPECT_EQ(make_plan(op, model, {}).error().code, ErrorCode::OutOfRange);
}

TEST(Search, ProvenanceSaysWhichBlockLeavesTheMeasuredRange) {
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.curve.valid_min_x = 256;
  model.variants[0].compute.curve.valid_max_x = 300;
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_EQ(plan.makespan.provenance, Provenance::Extrapolated);
  EXPECT_NE(plan.makespan.reason.find("256..300 rows"), std::string::npos);
}

TEST(Search, ProvenanceSaysThatSerialAloneLeavesTheMeasuredRange) {
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.curve.valid_min_x = 256;
  model.variants[0].compute.curve.valid_max_x = 1024;
  const Cut cut{{512, 896, 896, 896, 896}};
  const Plan plan = predict_cut(model.op, model, model.variants[0].variant, cut).value();
  EXPECT_EQ(plan.makespan.provenance, Provenance::Interpolated);
  EXPECT_NE(plan.makespan.reason.find("4096 rows is outside the compute curve's 256..1024 rows"), std::string::npos)
      << plan.makespan.reason;
}

TEST(Search, IntervalHoldsTheEstimate) {
  CostModel model = testing::worked_example_model();
  model.variants[0].compute.curve.relative_interval = 0.05;
  model.variants[0].communication.curve.relative_interval = 0.1;
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_LT(plan.makespan.low_us, plan.makespan.us);
  EXPECT_GT(plan.makespan.high_us, plan.makespan.us);
  EXPECT_GE(plan.makespan.low_us, plan.makespan.us * 0.9 - 1e-9);
  EXPECT_LE(plan.makespan.high_us, plan.makespan.us * 1.1 + 1e-9);
}

TEST(Search, OptionsAreCheckedByName) {
  const CostModel model = testing::worked_example_model();
  PlanOptions options;
  options.alignment = 0;
  EXPECT_EQ(make_plan(model.op, model, options).error().field, "alignment");
  options = {};
  options.max_block_count = 0;
  EXPECT_EQ(make_plan(model.op, model, options).error().field, "max_block_count");
  options = {};
  options.strategy = "magic";
  EXPECT_EQ(make_plan(model.op, model, options).error().code, ErrorCode::UnknownName);
}

TEST(PredictCut, RefusesBlocksThatDoNotCoverTheAxis) {
  const CostModel model = testing::worked_example_model();
  const Variant direct = model.variants[0].variant;
  for (const auto& blocks : {std::vector<std::int64_t>{}, {4095}, {4096, 1}, {0, 4096}, {-1, 4097}}) {
    const auto plan = predict_cut(model.op, model, direct, Cut{blocks});
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().field, "blocks");
  }
}

TEST(PredictCut, TakesAnyBlockListThatCoversTheAxis) {
  const CostModel model = testing::worked_example_model();
  const Plan plan = predict_cut(model.op, model, model.variants[0].variant, Cut{{1, 2, 4093}}).value();
  EXPECT_EQ(plan.cut.order(), BlockOrder::Free);
  EXPECT_EQ(plan.timeline.first.size(), 3u);
}

TEST(PredictCut, TakesTheVariantThatIsFastestForTheseBlocks) {
  // The matmul takes 1 us a row, and a row is 1 KiB. On the link, the first variant takes 100 us and 1 us a row; the
  // second takes 2 us a row.
  CostModel model =
      testing::model_of(testing::all_reduce_op(512, 256, 32, DType::F32, 2), testing::affine(CurveAxis::Rows, 0, 1),
                        testing::affine(CurveAxis::Bytes, 100, 1.0 / 1024));
  model.variants.push_back(model.variants.front());
  model.variants.back().variant.name = "two_shot";
  model.variants.back().communication.curve = testing::affine(CurveAxis::Bytes, 0, 2.0 / 1024);
  // First variant against second. Uncut: 512 + 612 against 512 + 1024. In 4 blocks: 128 + 4 x 228 against 128 + 4 x
  // 256. In 8 blocks: 64 + 8 x 164 against 64 + 8 x 128.
  const auto variant_of = [&](const Cut& cut) { return predict_cut(model.op, model, cut).value().variant.name; };
  EXPECT_EQ(variant_of(Cut{{512}}), "direct");
  EXPECT_EQ(variant_of(Cut{std::vector<std::int64_t>(4, 128)}), "direct");
  EXPECT_EQ(variant_of(Cut{std::vector<std::int64_t>(8, 64)}), "two_shot");
  EXPECT_DOUBLE_EQ(predict_cut(model.op, model, Cut{std::vector<std::int64_t>(8, 64)}).value().makespan.us,
                   64 + 8 * 128);
  EXPECT_EQ(predict_cut(model.op, model, Cut{{511}}).error().field, "blocks");
}

TEST(Search, OwnShardRunsWhileTheOthersArrive) {
  // The link takes 4 x 64 us. The own shard's matmul ends at 50. Each block's matmul, 32 us, follows the block's
  // arrival: the last one ends at 256 + 32.
  const CostModel model = testing::all_gather_model();
  const Plan plan = predict_cut(model.op, model, model.variants[0].variant, Cut{{64, 64, 64, 64}}).value();
  EXPECT_EQ(plan.schedule, Schedule::LocalFirst);
  EXPECT_DOUBLE_EQ(plan.makespan.us, 288);
  EXPECT_EQ(plan.timeline.second.front(), (Span{0, 50}));
  // Serial: 256 us of link, then 50 + 128 us of matmul. Uncut, the own shard still hides behind the link.
  EXPECT_DOUBLE_EQ(plan.serial_us, 256 + 50 + 128);
  EXPECT_DOUBLE_EQ(predict_cut(model.op, model, model.variants[0].variant, Cut{{256}}).value().makespan.us, 256 + 128);
}

TEST(Search, AllToAllKindsAreCutLikeTheOthersWithShards) {
  // Dispatch costs what the all-gather above costs, so it gets the same plan. Combine has no local part, and its matmul
  // comes first: 4 x 32 us of matmul, each followed by 64 us of link, take 32 + 4 * 64.
  CostModel dispatch = testing::all_gather_model();
  const Cut cut{{64, 64, 64, 64}};
  const Plan gathered = predict_cut(dispatch.op, dispatch, dispatch.variants[0].variant, cut).value();
  dispatch.op.kind = OpKind::AllToAllMatmul;
  const Plan dispatched = predict_cut(dispatch.op, dispatch, dispatch.variants[0].variant, cut).value();
  EXPECT_EQ(dispatched.schedule, Schedule::LocalFirst);
  EXPECT_DOUBLE_EQ(dispatched.makespan.us, gathered.makespan.us);
  EXPECT_DOUBLE_EQ(dispatched.serial_us, gathered.serial_us);

  CostModel combine = testing::all_gather_model();
  combine.op = {OpKind::MatmulAllToAll, 1024, 512, 256, DType::F16, 4}; // 1 us a row of the cut axis, of 4 x 1 KiB
  combine.variants[0].local_compute.reset();
  const Plan combined = predict_cut(combine.op, combine, combine.variants[0].variant, cut).value();
  EXPECT_EQ(combined.schedule, Schedule::Pipelined);
  EXPECT_DOUBLE_EQ(combined.makespan.us, 32 + 4 * 64);
  EXPECT_DOUBLE_EQ(combined.serial_us, 128 + 256);
}

TEST(Search, OwnShardWaitsWhenContentionMakesOverlapDearer) {
  CostModel model = testing::all_gather_model();
  model.variants[0].compute.slowdown = model.variants[0].communication.slowdown = 3;
  const Plan plan = make_plan(model.op, model, {}).value();
  EXPECT_FALSE(plan.is_cut());
  EXPECT_EQ(plan.schedule, Schedule::Serial);
  EXPECT_DOUBLE_EQ(plan.makespan.us, plan.serial_us);
}

TEST(Search, OwnShardWithoutACurveIsPricedByTheOthers) {
  CostModel model = testing::all_gather_model();
  model.variants[0].local_compute.reset();
  // The rank's 256 own rows are as many rows of the product as 256 / 3 rows of the cut axis: 85.33 x 0.5 us.
  EXPECT_DOUBLE_EQ(model.variants[0].local_us(model.op), 256.0 / 3 * 0.5);
}

TEST(Search, LocalCurveOfAKindWithoutALocalPartIsRefused) {
  CostModel model = testing::worked_example_model();
  model.variants[0].local_compute = testing::affine(CurveAxis::Rows, 0, 1);
  EXPECT_EQ(model.validate().error().field, "variants[0].local_compute");
}

TEST(Search, CutsOnlyWhenTheGainExceedsWhatTheIntervalsExplain) {
  CostModel model = testing::worked_example_model();
  const double benefit = make_plan(model.op, model, {}).value().benefit();
  const auto with_interval = [&](double relative) {
    model.variants[0].compute.curve.relative_interval = model.variants[0].communication.curve.relative_interval =
        relative;
    return make_plan(model.op, model, {}).value();
  };
  EXPECT_TRUE(with_interval(benefit / 4).is_cut());
  const Plan unsure = with_interval(2 * benefit);
  EXPECT_FALSE(unsure.is_cut());
  EXPECT_NE(unsure.reason.find("intervals explain"), std::string::npos);
  ASSERT_FALSE(unsure.runners_up.empty());
  EXPECT_LT(unsure.runners_up.front().makespan_us, unsure.makespan.us);
  PlanOptions bold;
  bold.require_significant_gain = false;
  EXPECT_TRUE(make_plan(model.op, model, bold).value().is_cut());
}

TEST(Search, SpreadOfSingleTimingsDoesNotForbidACut) {
  // Single timings vary by 50 %, but 20 sizes fit to 1 %: the gain in the mean is certain.
  CostModel model = testing::worked_example_model();
  for (LaneCost* lane : {&model.variants[0].compute, &model.variants[0].communication}) {
    lane->curve.relative_interval = 0.5;
    lane->curve.quality.point_count = 20;
    lane->curve.quality.relative_rms = lane->curve.quality.cross_validated_rms = 0.01;
  }
  EXPECT_TRUE(make_plan(model.op, model, {}).value().is_cut());
}

TEST(Search, UpperQuantilePrefersTheVariantThatIsBetterKnown) {
  // "risky" is 1 % faster, but its times are known to 20 % only; those of "direct" are known exactly.
  CostModel model = testing::worked_example_model();
  model.variants.push_back(model.variants[0]);
  model.variants[1].variant.name = "risky";
  for (LaneCost* lane : {&model.variants[1].compute, &model.variants[1].communication}) {
    lane->curve = scaled(lane->curve, 0.99);
    lane->curve.relative_interval = 0.2;
  }
  PlanOptions options;
  options.require_significant_gain = false;
  EXPECT_EQ(make_plan(model.op, model, options).value().variant.name, "risky");
  options.objective_quantile = 0.95;
  EXPECT_EQ(make_plan(model.op, model, options).value().variant.name, "direct");
  options.objective_quantile = 0.4;
  EXPECT_EQ(make_plan(model.op, model, options).error().field, "objective_quantile");
}

TEST(Search, UpperQuantileIsThatOfThePrintedInterval) {
  CostModel model = testing::worked_example_model();
  LaneCost &compute = model.variants[0].compute, &communication = model.variants[0].communication;
  PlanOptions options;
  options.require_significant_gain = false;
  options.objective_quantile = 0.95; // the upper end of a 90 % interval
  for (const auto& [overlap, makespan] : {std::pair(0.0, 0.0), {0.05, 0.0}, {0.3, 0.0}, {0.05, 0.1}, {0.3, 0.2}})
    for (const auto& [computed, communicated] : {std::pair(0.05, 0.4), {0.3, 0.1}, {0.5, 0.5}}) {
      model.spread = {
          .compute = computed / 2, .communication = communicated / 2, .overlap = overlap, .makespan = makespan};
      compute.curve.relative_interval = computed;
      communication.curve.relative_interval = communicated;
      const Plan plan = make_plan(model.op, model, options).value();
      for (const Cut& cut : enumerate_cuts(model.op, options).value()) {
        const Plan other = predict_cut(model.op, model, cut).value();
        EXPECT_LE(plan.makespan.high_us, other.makespan.high_us * (1 + 1e-9)) << plan.cut.text() << ", " << cut.text();
      }
    }
}

TEST(Search, IntervalAddsTheLanesErrorsAsSquares) {
  // Uncut: 800 us of compute known to 3 % and 100 us of link known to 32 % are off by sqrt(24^2 + 32^2) = 40 us.
  CostModel model =
      testing::model_of(testing::all_reduce_op(100, 256, 32, DType::F32, 2), testing::affine(CurveAxis::Rows, 0, 8),
                        testing::affine(CurveAxis::Bytes, 0, 1.0 / 1024));
  model.variants[0].compute.curve.relative_interval = 0.03;
  model.variants[0].communication.curve.relative_interval = 0.32;
  const Estimate estimate = make_plan(model.op, model, {}).value().makespan;
  EXPECT_DOUBLE_EQ(estimate.us, 900);
  EXPECT_NEAR(estimate.high_us, 940, 1e-9);
  EXPECT_NEAR(estimate.low_us, 860, 1e-9);
}

CostModel random_model(std::int64_t m) {
  const auto number = [](int low, int high, double scale) { return *rc::gen::inRange(low, high) * scale; };
  auto model = testing::model_of(testing::all_reduce_op(m, 512, 512, DType::F32, 2),
                                 testing::affine(CurveAxis::Rows, number(0, 200, 1), number(1, 100, 0.01)),
                                 testing::affine(CurveAxis::Bytes, number(0, 200, 1), number(1, 100, 5e-6)),
                                 1 + number(0, 20, 0.1), 1 + number(0, 20, 0.1));
  if (*rc::gen::arbitrary<bool>()) {
    model.op.kind = *rc::gen::element(OpKind::MatmulReduceScatter, OpKind::AllGatherMatmul, OpKind::MatmulAllToAll,
                                      OpKind::AllToAllMatmul);
    model.op.m = 2 * m;
    if (traits_of(model.op.kind).has_local_part && *rc::gen::arbitrary<bool>())
      model.variants[0].local_compute = testing::affine(CurveAxis::Rows, number(0, 200, 1), number(1, 100, 0.01));
  }
  model.variants[0].compute.curve.axis = compute_axis(model.op);
  model.variants[0].compute.fixed_us = number(0, 20, 1);
  model.variants[0].communication.fixed_us = number(0, 20, 1);
  model.variants[0].run_us = number(0, 40, 1);
  model.variants[0].compute.start_us = number(0, 40, 1);
  model.variants[0].communication.start_us = number(0, 40, 1);
  if (*rc::gen::arbitrary<bool>()) model.variants[0].variant.fields["slices"] = testing::random_slices();
  return model;
}

TEST(Search, WhatARunTakesBesidesItsBlocksCountsOnceAndNotOfASerialRun) {
  const CostModel without = testing::worked_example_model();
  CostModel with = without;
  with.variants[0].run_us = 30;
  const Plan before = make_plan(without.op, without, {}).value(), after = make_plan(with.op, with, {}).value();
  ASSERT_TRUE(before.is_cut());
  EXPECT_EQ(after.cut, before.cut);
  EXPECT_NEAR(after.makespan.us, before.makespan.us + 30, 1e-9);
  EXPECT_DOUBLE_EQ(after.serial_us, before.serial_us);
  EXPECT_EQ(after.timeline.first, before.timeline.first);
  EXPECT_TRUE(after.validate());
  with.variants[0].run_us = before.serial_us;
  const Plan serial = make_plan(with.op, with, {}).value();
  EXPECT_EQ(serial.schedule, Schedule::Serial);
  EXPECT_DOUBLE_EQ(serial.makespan.us, before.serial_us);
  with.variants[0].run_us = -1;
  EXPECT_EQ(with.validate().error().field, "variants[0].run_us");
}

RC_GTEST_PROP(Search, FindsWhatBruteForceFinds, ()) {
  const std::int64_t m = *rc::gen::inRange(1, 3000);
  const CostModel model = random_model(m);
  PlanOptions options;
  options.alignment = *rc::gen::element<std::int64_t>(1, 32, 64, 128, 200);
  if (options.alignment == 1) options.alignment = std::max<std::int64_t>(1, m / 40);
  options.min_block_rows = *rc::gen::inRange(1, 300);
  options.max_block_count = *rc::gen::inRange(1, 40);
  const Plan plan = make_plan(model.op, model, options).value();
  const double expected_us = brute_force_us(model, model.op, options);
  RC_ASSERT(std::abs(plan.makespan.us - expected_us) <= 1e-9 * expected_us);
}

RC_GTEST_PROP(Search, PlansAreLegalAndNeverWorseThanUncut, ()) {
  const std::int64_t m = *rc::gen::inRange(1, 20000);
  const CostModel model = random_model(m);
  PlanOptions options;
  options.min_block_rows = *rc::gen::inRange(1, 300);
  options.max_block_count = *rc::gen::inRange(1, 64);
  const Plan plan = make_plan(model.op, model, options).value();
  const auto& rows = plan.cut.block_rows;
  RC_ASSERT(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) ==
            traits_of(model.op.kind).cut_axis_length(model.op));
  RC_ASSERT(static_cast<std::int64_t>(rows.size()) <= options.max_block_count);
  RC_ASSERT(plan.makespan.us <= plan.serial_us * (1 + 1e-12));
  RC_ASSERT(plan.makespan.us >= plan.ideal_us * (1 - 1e-12));
  std::set<std::int64_t> unaligned;
  for (const auto length : rows) {
    if (plan.is_cut()) RC_ASSERT(length >= options.min_block_rows);
    if (length % options.alignment != 0) unaligned.insert(length);
  }
  RC_ASSERT(unaligned.size() <= 1u);
}

RC_GTEST_PROP(Search, FasterLinkNeverMakesThePlanSlower, ()) {
  CostModel model = random_model(*rc::gen::inRange(1, 8000));
  const double before_us = make_plan(model.op, model, {}).value().makespan.us;
  CostCurve& link = model.variants[0].communication.curve;
  link = scaled(link, *rc::gen::inRange(1, 100) / 100.0);
  RC_ASSERT(make_plan(model.op, model, {}).value().makespan.us <= before_us * (1 + 1e-12));
}

RC_GTEST_PROP(Search, UnitOfTimeDoesNotMatter, ()) {
  // Powers of two scale every double exactly, so even ties are decided the same way.
  CostModel model = random_model(*rc::gen::inRange(1, 8000));
  const Plan plan = make_plan(model.op, model, {}).value();
  const double factor = std::exp2(*rc::gen::inRange(-10, 10));
  for (LaneCost* lane : {&model.variants[0].compute, &model.variants[0].communication}) {
    lane->curve = scaled(lane->curve, factor);
    lane->fixed_us *= factor;
    lane->start_us *= factor;
  }
  model.variants[0].run_us *= factor;
  if (auto& local = model.variants[0].local_compute) local = scaled(*local, factor);
  const Plan other = make_plan(model.op, model, {}).value();
  RC_ASSERT(other.cut == plan.cut);
  RC_ASSERT(other.makespan.us == plan.makespan.us * factor);
}

RC_GTEST_PROP(Search, ElementSizeMattersOnlyThroughBytes, ()) {
  CostModel model = random_model(*rc::gen::inRange(1, 8000));
  const Plan plan = make_plan(model.op, model, {}).value();
  model.op.dtype = DType::F16; // half the bytes per row, at twice the price per byte
  auto& link = std::get<AffineCurve>(model.variants[0].communication.curve.shape);
  link.beta_us_per_x *= 2;
  RC_ASSERT(make_plan(model.op, model, {}).value().cut == plan.cut);
}

RC_GTEST_PROP(Search, SameQuestionSameAnswer, ()) {
  const CostModel model = random_model(*rc::gen::inRange(1, 5000));
  RC_ASSERT(make_plan(model.op, model, {}).value() == make_plan(model.op, model, {}).value());
}

/// A model of 16 rows, which are cut along n: a column takes 1 us of matmul and 1 us for its 64 bytes.
CostModel column_model() {
  return testing::model_of(testing::all_reduce_op(16, 1024, 64, DType::F32, 2),
                           testing::affine(CurveAxis::Columns, 0, 1), testing::affine(CurveAxis::Bytes, 0, 1.0 / 64));
}

TEST(Search, CutsColumnsOfFewRows) {
  // 8 blocks of 128 columns: 128 + 8 * 128 = 1152 us against 2048.
  const Plan plan = make_plan(column_model().op, column_model(), {}).value();
  EXPECT_EQ(plan.cut.block_rows, std::vector<std::int64_t>(8, 128));
  EXPECT_DOUBLE_EQ(plan.makespan.us, 1152);
  OpSpec wider = column_model().op;
  wider.n = 1300; // the same curves answer for another n
  const Plan other = make_plan(wider, column_model(), {}).value();
  EXPECT_EQ(std::accumulate(other.cut.block_rows.begin(), other.cut.block_rows.end(), std::int64_t{0}), 1300);
}

TEST(Search, AnswersForColumnsAndRowsByTheirOwnModelsOnly) {
  OpSpec rows = column_model().op;
  rows.m = 4096;
  const auto refused = make_plan(rows, column_model(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfRange);
  EXPECT_NE(refused.error().message.find("other n of it that is cut into columns"), std::string::npos);
  const CostModel worked = testing::worked_example_model();
  OpSpec few = worked.op;
  few.m = 16;
  EXPECT_EQ(make_plan(few, worked, {}).error().code, ErrorCode::OutOfRange);
}

TEST(Formula, CutsNoColumns) {
  PlanOptions options;
  options.strategy = "formula";
  const auto refused = make_plan(column_model().op, column_model(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Infeasible);
  EXPECT_NE(refused.error().message.find("cut along n"), std::string::npos);
}

} // namespace
} // namespace mc2::planner::search_test
