#include "mc2/finder/plan_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "mc2/planner/cutting.hpp"
#include "support/models.hpp"

namespace mc2::finder::plan_source_test {
namespace {

using planner::CostModel;
using planner::OpSpec;
using planner::Provenance;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

OpSpec op_of(std::int64_t m, std::int64_t n = 1024, std::int64_t k = 1024) {
  return mc2::testing::all_reduce_op(m, n, k, planner::DType::F32, 2);
}

/// A model whose matmul takes 1 us a row and whose link takes 1 us for each 4 KiB.
CostModel model_of(const OpSpec& op) {
  return mc2::testing::model_of(op, mc2::testing::affine(planner::CurveAxis::Rows, 10, 1),
                                mc2::testing::affine(planner::CurveAxis::Bytes, 20, 1.0 / 4096));
}

PlanQuestion question(const OpSpec& op = op_of(1024)) { return {.op = op, .machine = model_of(op).fingerprint}; }

/// Asks for the speed of a machine whose lanes take 2000 and 1000 us now.
PlanQuestion question_of_now() {
  PlanQuestion now = question();
  now.time_lanes = [](const CostModel& model) -> Result<std::vector<planner::TimedLanes>> {
    return std::vector<planner::TimedLanes>{{model.variants.front().variant.text(), 2000, 1000, 0.01, 0.01}};
  };
  return now;
}

/// What a store would hold; the tests need no store.
struct Shelf {
  std::vector<store::StoredPlan> plans;
  std::vector<CostModel> models;
  planner::SpeedRecord record;
  std::optional<ErrorCode> plan_damage, model_damage;

  void tuned(const OpSpec& op, std::int64_t rows, const std::string& purpose = "tuned") {
    auto plan = planner::predict_cut(op, model_of(op), {{rows, op.m - rows}}).value();
    auto stored = unkept(std::move(plan));
    stored.key = {op, store::digest(question(op).machine), purpose};
    stored.created_at = "2026-01-02T03:04:05Z";
    plans.push_back(std::move(stored));
  }

  [[nodiscard]] Kept kept() const {
    return {[this](const store::PlanKey& key) -> Result<store::StoredPlan> {
              if (plan_damage) return Error{*plan_damage, "plan", "is damaged"};
              for (const auto& plan : plans)
                if (plan.key == key) return plan;
              return Error{ErrorCode::NotFound, "", "no plan"};
            },
            [this](const OpSpec& op, const planner::Fingerprint& machine) -> Result<CostModel> {
              if (model_damage) return Error{*model_damage, "model", "is damaged"};
              for (const auto& model : models)
                if (model.fingerprint == machine && planner::has_same_block_costs(model.op, op)) return model;
              return Error{ErrorCode::NotFound, "", "no model"};
            },
            [this](const OpSpec&, const planner::Fingerprint&) { return models; },
            [this](const OpSpec&, const planner::Fingerprint&) { return !record.runs.empty(); },
            [this](const OpSpec&, const planner::Fingerprint&) { return record; }};
  }

  [[nodiscard]] std::vector<PlanSource> sources(std::vector<CostModel> given = {}) const {
    return {kept_plans(kept()), own_planner({.given = std::move(given), .kept = kept()})};
  }
};

PlanSource failing(ErrorCode code) {
  return {"broken", [=](const PlanQuestion&) -> Result<FoundPlan> { return Error{code, "x", "says no"}; }};
}

PlanSource answering(std::string source, bool is_stopgap = false) {
  return {source, [=](const PlanQuestion& asked) -> Result<FoundPlan> {
            auto plan = planner::predict_cut(asked.op, model_of(asked.op), {{asked.op.m}}).value();
            return FoundPlan{unkept(std::move(plan)), source, Origin::Given, is_stopgap};
          }};
}

TEST(FindPlan, TakesTheFirstThatHasOneAndSaysWhyOthersHadNone) {
  const std::vector<PlanSource> sources{failing(ErrorCode::NotFound), failing(ErrorCode::Stale), answering("planner")};
  const auto found = find_plan(sources, question());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value().source, "planner");
  EXPECT_THAT(found.value().misses, ElementsAre("broken: x: says no", "broken: x: says no"));
  EXPECT_FALSE(found.value().passed_over_damage);
}

TEST(FindPlan, PassesOverWhatCannotBeReadAndSaysSo) {
  for (const ErrorCode damage : {ErrorCode::Corrupt, ErrorCode::NewerVersion, ErrorCode::Unreadable}) {
    const std::vector<PlanSource> sources{failing(damage), answering("planner")};
    const auto found = find_plan(sources, question());
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(found.value().passed_over_damage);
    EXPECT_THAT(found.value().misses, ElementsAre("broken: x: says no"));
    // Where nothing answers, damage is the error that is told, rather than that nothing was found.
    const std::vector<PlanSource> none{failing(damage), failing(ErrorCode::NotFound)};
    EXPECT_EQ(find_plan(none, question()).error().code, damage);
  }
}

TEST(FindPlan, EndsWhereTheQuestionIsAtFault) {
  for (const ErrorCode end : {ErrorCode::InvalidSpec, ErrorCode::Cancelled}) {
    const std::vector<PlanSource> sources{failing(end), answering("planner")};
    EXPECT_EQ(find_plan(sources, question()).error().code, end);
  }
}

TEST(FindPlan, NothingIsAnErrorWithEveryReason) {
  const std::vector<PlanSource> none{failing(ErrorCode::NotFound), failing(ErrorCode::Infeasible)};
  const auto missing = find_plan(none, question());
  EXPECT_EQ(missing.error().code, ErrorCode::Infeasible);
  EXPECT_EQ(missing.error().message, "broken: x: says no; broken: x: says no");
  EXPECT_EQ(find_plan({}, question()).error().code, ErrorCode::NotFound);
}

TEST(FindPlan, AStopgapGivesWayToAPlanOfOnesOwn) {
  const std::vector<PlanSource> sources{answering("service", true), failing(ErrorCode::NotFound), answering("kept")};
  EXPECT_EQ(find_plan(sources, question()).value().source, "kept");
  const std::vector<PlanSource> alone{answering("service", true), failing(ErrorCode::InvalidSpec),
                                      answering("planner", true)};
  EXPECT_EQ(find_plan(alone, question()).value().source, "service");
}

/// A model that was measured up to 64 rows only, so that every plan for 1024 rows is extrapolated.
CostModel narrow_model_of(const OpSpec& op) {
  return mc2::testing::model_of(op, mc2::testing::affine(planner::CurveAxis::Rows, 10, 1, 64),
                                mc2::testing::affine(planner::CurveAxis::Bytes, 20, 1.0 / 4096));
}

TEST(FindPlan, AServicesStopgapGivesWayOnlyToAPlanThatIsBetter) {
  const PlanSource service = answering("service", true);
  const std::vector<PlanSource> better{service, own_planner({.given = {model_of(op_of(1024))}})};
  const auto own = find_plan(better, question()).value();
  EXPECT_EQ(own.origin, Origin::Model);
  EXPECT_FALSE(own.is_stopgap);
  EXPECT_THAT(own.misses, ElementsAre(HasSubstr("service: only extrapolated: ")));
  const std::vector<PlanSource> no_better{service, own_planner({.given = {narrow_model_of(op_of(1024))}})};
  EXPECT_EQ(find_plan(no_better, question()).value().source, "service");
  const auto alone = find_plan(std::span(no_better).subspan(1), question()).value();
  EXPECT_EQ(alone.stored.plan.makespan.provenance, Provenance::Extrapolated);
  EXPECT_TRUE(alone.is_stopgap);
}

TEST(FindPlan, WhatWasTunedComesBeforeWhatAModelSays) {
  Shelf shelf;
  shelf.models.push_back(model_of(op_of(1024)));
  const auto modelled = find_plan(shelf.sources(), question()).value();
  EXPECT_EQ(modelled.origin, Origin::Model);
  EXPECT_FALSE(modelled.is_stopgap);
  shelf.tuned(op_of(1024), 320);
  const auto tuned = find_plan(shelf.sources(), question()).value();
  EXPECT_EQ(tuned.origin, Origin::Kept);
  EXPECT_EQ(tuned.stored.plan.cut.text(), "320 + 704");
  EXPECT_EQ(tuned.stored.created_at, "2026-01-02T03:04:05Z");
  // For another m nothing was tuned, but the model answers for it.
  EXPECT_EQ(find_plan(shelf.sources(), question(op_of(2048))).value().origin, Origin::Model);
}

TEST(FindPlan, OptionsAskForAnotherPlanUnlessTheyAreTheMachines) {
  Shelf shelf;
  shelf.models.push_back(model_of(op_of(1024)));
  shelf.tuned(op_of(1024), 320);
  PlanQuestion asked = question();
  asked.options = planner::default_options_on(asked.machine);
  EXPECT_EQ(find_plan(shelf.sources(), asked).value().origin, Origin::Kept);
  asked.options->max_block_count = 2;
  const auto found = find_plan(shelf.sources(), asked).value();
  EXPECT_EQ(found.origin, Origin::Model);
  EXPECT_THAT(found.misses, ElementsAre("kept plans: no plan"));
  EXPECT_EQ(tuned_purpose(asked), "tuned max_block_count=2");
  shelf.tuned(op_of(1024), 448, "tuned max_block_count=2");
  EXPECT_EQ(find_plan(shelf.sources(), asked).value().stored.plan.cut.text(), "448 + 576");
  EXPECT_EQ(find_plan(shelf.sources(), question()).value().stored.plan.cut.text(), "320 + 704");
  asked.variant = planner::Variant{"direct", {}};
  asked.options->objective_quantile = 0.9;
  EXPECT_EQ(tuned_purpose(asked), "tuned direct max_block_count=2, objective_quantile=0.9");
}

TEST(FindPlan, APurposeIsOneThatAQuestionHasAndThePlanAnswers) {
  planner::Plan plan =
      planner::unpredicted_plan(op_of(1024), question().machine, {"direct", {}}, planner::Cut{{256, 256, 512}}).value();
  const auto why_not = [&](const std::string& purpose) {
    const auto legal = require_purpose(plan, purpose);
    return legal ? std::string() : legal.error().text();
  };
  for (const char* legal : {"tuned", "tuned direct", "tuned max_block_count=3", "tuned strategy=free",
                            "tuned direct max_block_count=3, objective_quantile=0.9",
                            R"(tuned contention={"communication":1.5,"compute":1.25})"})
    EXPECT_EQ(why_not(legal), "") << legal;
  for (const auto& [wrong, why] : {std::pair{"", "must be \"tuned\""},
                                   {"other", "must be \"tuned\""},
                                   {"tuned ", "not as questions write it: \"tuned\""},
                                   {"tuned max_blocks=3", "max_blocks"},
                                   {"tuned max_block_count", "is of variant direct"},
                                   {"tuned max_block_count=03", "max_block_count"},
                                   {"tuned max_block_count=0", "max_block_count"},
                                   {"tuned objective_quantile=0.9, max_block_count=3", "not as questions write it"},
                                   {"tuned strategy=fastest", "strategy"},
                                   {"tuned tile_store", "is of variant direct"},
                                   {"tuned max_block_count=2", "has max_block_count=2; this plan has 3 blocks"},
                                   {"tuned min_block_rows=512", "min_block_rows=512; this plan has a block of 256"}})
    EXPECT_THAT(why_not(wrong), ::testing::HasSubstr(why)) << wrong;
}

TEST(FindPlan, EveryQuestionsPurposeIsLegalForItsPlan) {
  for (const char* backend : {"host", "cuda", "torch-gloo"}) {
    PlanQuestion asked = question();
    asked.machine.fields["backend"] = backend;
    const auto plan = planner::unpredicted_plan(asked.op, asked.machine, {"direct", {}}, planner::Cut{{1024}}).value();
    const auto usual = planner::default_options_on(asked.machine);
    std::vector<planner::PlanOptions> all(10, usual);
    all[1].max_block_count = 64; // PlanOptions' own, but not every machine's
    all[2].alignment = all[2].min_block_rows = 7;
    all[3].objective_quantile = 0.95;
    all[4].require_significant_gain = false;
    all[5].formula_contention = 1.25;
    all[6].contention = {1.5, 1.25};
    all[7].block_overhead_us = 2.5;
    all[8].formula_short_block = planner::ShortBlockRule::Smallest;
    all[9].strategy = "formula";
    for (const auto& options : all) {
      asked.options = options;
      for (const bool has_variant : {false, true}) {
        asked.variant = has_variant ? std::optional(plan.variant) : std::nullopt;
        const std::string purpose = tuned_purpose(asked);
        const auto legal = require_purpose(plan, purpose);
        EXPECT_TRUE(legal) << backend << " " << purpose << ": " << legal.error().text();
      }
    }
  }
}

TEST(FindPlan, HowManyRunnersUpAreAskedForIsNoOtherPlan) {
  Shelf shelf;
  shelf.models.push_back(model_of(op_of(1024)));
  shelf.tuned(op_of(1024), 320);
  PlanQuestion asked = question();
  asked.options = planner::default_options_on(asked.machine);
  for (const int count : {0, 5, 6, planner::kMaxRunnerUpCount}) {
    asked.options->runner_up_count = count;
    EXPECT_EQ(find_plan(shelf.sources(), asked).value().origin, Origin::Kept) << count;
  }
}

TEST(FindPlan, CountsOfRowsAreAnsweredByNoTunedPlan) {
  Shelf shelf;
  shelf.tuned(op_of(1024), 320);
  PlanQuestion asked = question();
  asked.options = planner::default_options_on(asked.machine);
  asked.options->counts = {512, 0, 0, 512};
  const auto refused = kept_plans(shelf.kept()).find(asked);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("not for counts of rows"));
}

TEST(FindPlan, AVariantHasTunedPlansOfItsOwn) {
  Shelf shelf;
  shelf.models.push_back(model_of(op_of(1024)));
  shelf.tuned(op_of(1024), 320);
  shelf.tuned(op_of(1024), 448, "tuned direct");
  PlanQuestion asked = question();
  asked.variant = planner::Variant{"direct", {}};
  EXPECT_EQ(find_plan(shelf.sources(), asked).value().stored.plan.cut.text(), "448 + 576");
  asked.variant = planner::Variant{"ring", {}};
  const auto missing = find_plan(shelf.sources(), asked);
  EXPECT_EQ(missing.error().code, ErrorCode::NotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("knows nothing of ring, only of: direct"));
}

TEST(FindPlan, ANeighboursModelAnswersMarkedUnlessThatIsRuledOut) {
  Shelf shelf;
  shelf.models.push_back(model_of(op_of(1024, 2048, 1024)));
  const auto found = find_plan(shelf.sources(), question()).value();
  EXPECT_EQ(found.origin, Origin::Model);
  EXPECT_TRUE(found.is_stopgap);
  EXPECT_EQ(found.stored.plan.makespan.provenance, Provenance::Extrapolated);
  EXPECT_THAT(found.stored.plan.makespan.reason, HasSubstr("transferred from n=2048 k=1024"));
  PlanQuestion strict = question();
  strict.may_transfer = false;
  const auto refused = find_plan(shelf.sources(), strict);
  EXPECT_EQ(refused.error().code, ErrorCode::NotFound);
  EXPECT_THAT(refused.error().message, HasSubstr("transfer is ruled out"));
  // A given model of the operator itself comes before the kept neighbour's.
  EXPECT_FALSE(find_plan(shelf.sources({model_of(op_of(4096))}), question()).value().is_stopgap);
}

TEST(FindPlan, AServicesTransferredPlanIsAStopgapEvenIfItIsAnalytic) {
  Shelf shelf;
  shelf.models.push_back(model_of(op_of(1024, 2048, 1024)));
  for (auto& cost : shelf.models.front().variants) cost.compute.curve.is_analytic = true;
  const planner::Plan plan = find_plan(shelf.sources(), question()).value().stored.plan;
  ASSERT_EQ(plan.makespan.provenance, Provenance::Analytic);
  store::PlanAnswer answer;
  answer.plan = plan;
  answer.source = "model";
  EXPECT_TRUE(served_plan(answer, "service").is_stopgap);
}

TEST(FindPlan, ADamagedPlanOrModelIsPassedOverLikeAnyOtherPlace) {
  Shelf shelf;
  shelf.models.push_back(model_of(op_of(1024)));
  shelf.plan_damage = ErrorCode::Corrupt;
  const auto from_model = find_plan(shelf.sources(), question()).value();
  EXPECT_EQ(from_model.origin, Origin::Model);
  EXPECT_TRUE(from_model.passed_over_damage);
  shelf.models.front().op = op_of(1024, 2048, 1024);
  shelf.model_damage = ErrorCode::Corrupt;
  EXPECT_TRUE(find_plan(shelf.sources(), question()).value().is_stopgap) << "the neighbour's";
  shelf.models.clear();
  EXPECT_EQ(find_plan(shelf.sources(), question()).error().code, ErrorCode::Corrupt);
}

TEST(FindModel, AWrongConstantExplainsNoGainAway) {
  FoundModel found{model_of(op_of(1024))};
  for (auto* curve : {&found.model.variants[0].compute.curve, &found.model.variants[0].communication.curve})
    curve->relative_interval = 0.9; // so wide that no gain is significant
  EXPECT_FALSE(plan_with(found, question()).value().is_cut());
  found.model.variants[0].communication.curve.is_analytic = true;
  EXPECT_TRUE(plan_with(found, question()).value().is_cut());
}

TEST(FindModel, IsAsSureAsTheMachinesEarlierPredictionsWere) {
  const auto width = [](const Shelf& shelf, const PlanQuestion& asked) {
    const auto found = find_model({.given = {}, .kept = shelf.kept()}, asked).value();
    const auto makespan = plan_with(found, asked).value().makespan;
    return (makespan.high_us - makespan.low_us) / makespan.us;
  };
  Shelf steady;
  steady.models = {model_of(op_of(1024))};
  Shelf unsteady = steady;
  const auto model = find_model({.given = {}, .kept = steady.kept()}, question()).value();
  const double serial_us = plan_with(model, question()).value().serial_us;
  steady.record.ratios.assign(50, {1.001, 1.001, 1.001, serial_us});
  unsteady.record.ratios.assign(50, {1.5, 1.001, 1.001, serial_us});
  EXPECT_LT(width(steady, question()), 0.1);
  EXPECT_GT(width(unsteady, question()), 0.3);
  steady.record.ratios.assign(50, {1.5, 1.001, 1.001, serial_us / 10}); // such short runs tell nothing of longer ones
  EXPECT_LT(width(steady, question()), 0.15);
  // An uncut time that is measured now needs no record of how the speed has changed.
  const PlanQuestion now = question_of_now();
  EXPECT_LT(width(unsteady, now), 0.1);
  const auto anchored = find_model({.given = {}, .kept = unsteady.kept()}, now).value();
  EXPECT_DOUBLE_EQ(plan_with(anchored, now).value().compute_us, 2000);
}

TEST(FindModel, AtTheSpeedOfNowCutsAreAsUncertainAsTheirRacesLeftThem) {
  Shelf shelf;
  shelf.models = {model_of(op_of(1024))};
  const planner::Variant variant = shelf.models.front().variants.front().variant;
  shelf.models.front().anchored_interval = 0.02;
  shelf.models.front().variants.front().open_steps = {{0, 0, 50, 0}}; // us per block of the second lane
  PlanQuestion now = question();
  now.time_lanes = [&](const CostModel&) -> Result<std::vector<planner::TimedLanes>> {
    return std::vector<planner::TimedLanes>{{variant.text(), 1034, 1044, 0.001, 0.001}};
  };
  const auto plan_of = [&](std::int64_t blocks) {
    const auto found = find_model({.given = {}, .kept = shelf.kept()}, now).value();
    const planner::Cut cut{std::vector<std::int64_t>(static_cast<std::size_t>(blocks), 1024 / blocks)};
    return predict_with(found, now, cut).value();
  };
  const auto half_width = [&](std::int64_t blocks) {
    const auto makespan = plan_of(blocks).makespan;
    return (makespan.high_us - makespan.us) / makespan.us;
  };
  /// The interval of the benefit, as a part of the makespan.
  const auto benefit_half_width = [&](std::int64_t blocks) {
    const planner::Plan plan = plan_of(blocks);
    const double ratio = plan.makespan.us / plan.serial_us;
    return (1 - ratio - plan.benefit_interval->low) / ratio;
  };
  EXPECT_GT(half_width(2), 0.02);
  EXPECT_LT(half_width(1), 0.02); // races of cuts say nothing of the uncut run
  EXPECT_GT(half_width(16), 0.3); // 16 x 50 us of some 1,700
  EXPECT_LT(half_width(16), 0.8);
  EXPECT_NEAR(benefit_half_width(16), half_width(16), 0.05); // serial has no blocks
  now.options = planner::PlanOptions();
  now.options->block_overhead_us = 0; // what is assumed is not open
  EXPECT_LT(half_width(16), 0.1);
  EXPECT_LT(benefit_half_width(16), 0.1);
}

TEST(FindPlan, AtTheSpeedOfNowTheChoiceOfARaceStays) {
  Shelf shelf;
  shelf.models = {model_of(op_of(1024))};
  shelf.tuned(op_of(1024), 320);
  const PlanQuestion now = question_of_now();
  EXPECT_EQ(find_plan(shelf.sources(), now).value().origin, Origin::Model) << "the plan was not raced";
  planner::Validation& race = shelf.plans.back().plan.validation.emplace();
  race = {1400, 2000, 0.3, 0.25, 0.35, 9};
  race.measured_at = "2026-01-02T03:04:05Z";
  const auto found = find_plan(shelf.sources(), now).value();
  EXPECT_EQ(found.origin, Origin::Kept);
  EXPECT_EQ(found.stored.plan.cut.block_rows.front(), 320);
  EXPECT_DOUBLE_EQ(found.stored.plan.compute_us, 2000);
  EXPECT_FALSE(found.stored.plan.validation) << "of another day's speed";
  EXPECT_THAT(found.stored.plan.makespan.reason,
              HasSubstr("; its race of 2026-01-02T03:04Z measured a benefit of 30.0 % (25.0 % to 35.0 %)"));
}

TEST(FindModel, IsAsFastAsTheOperatorsLaterRuns) {
  Shelf shelf;
  shelf.models = {model_of(op_of(1024))};
  const auto plan_of = [&] {
    const auto found = find_model({.given = {}, .kept = shelf.kept()}, question()).value();
    EXPECT_EQ(found.model, shelf.models.front());
    return plan_with(found, question()).value();
  };
  const planner::Plan before = plan_of();
  EXPECT_EQ(before.makespan.reason.find("by its last"), std::string::npos);
  shelf.record.runs.assign(1, {op_of(1024), before.variant, 8 * before.compute_us, before.communication_us});
  const planner::Plan after = plan_of();
  EXPECT_NEAR(after.compute_us, 4 * before.compute_us, 1e-6); // 8^(2/3): the run weighs 1, the profile 1/2
  EXPECT_NEAR(after.communication_us, before.communication_us, 1e-6);
  EXPECT_NE(after.makespan.reason.find("by its last run: compute 4.00x, communication 1.00x the profiled time"),
            std::string::npos)
      << after.makespan.reason;
}

TEST(FindModel, ATransferredPlanSaysWhichSpeedItAssumes) {
  Shelf shelf;
  shelf.models = {model_of(op_of(1024, 2048, 1024))};
  const planner::Variant variant = shelf.models.front().variants.front().variant;
  shelf.record.runs.assign(1, {op_of(1024), variant, 8000, 1000});
  const auto makespan = find_plan(shelf.sources(), question()).value().stored.plan.makespan;
  EXPECT_EQ(makespan.provenance, Provenance::Extrapolated);
  EXPECT_TRUE(makespan.reason.starts_with("transferred from n=2048 k=1024")) << makespan.reason;
  EXPECT_THAT(makespan.reason, HasSubstr("; by its last run: compute "));
}

TEST(FindModel, SaysWhatAKeptPlanLosesSinceItsOperatorChangedItsSpeed) {
  Shelf shelf;
  shelf.models = {model_of(op_of(1024))};
  const ModelPlaces places{.given = {}, .kept = shelf.kept()};
  const planner::Plan kept = plan_with(find_model(places, question()).value(), question()).value();
  ASSERT_TRUE(kept.is_cut());
  EXPECT_FALSE(staleness_of(shelf.kept(), kept)); // nothing has run yet
  shelf.record.runs.assign(1, {kept.op, kept.variant, kept.compute_us, kept.communication_us});
  EXPECT_FALSE(staleness_of(shelf.kept(), kept));
  shelf.record.runs.assign(4, {kept.op, kept.variant, kept.compute_us, 12 * kept.communication_us});
  const auto stale = staleness_of(shelf.kept(), kept);
  ASSERT_TRUE(stale);
  EXPECT_GT(stale->loss, kStaleLoss);
  EXPECT_NE(stale->best_blocks, kept.cut.text());
  EXPECT_EQ(stale->why.find("by its last 4 runs: "), 0U) << stale->why;
  shelf.tuned(op_of(1024), 320);
  const auto found = find_plan(shelf.sources(), question()).value();
  EXPECT_EQ(found.origin, Origin::Kept);
  ASSERT_TRUE(found.staleness);
  EXPECT_EQ(found.staleness->best_blocks, stale->best_blocks);
}

TEST(FindModel, SaysWhatOfTheRaceMadeAKeptPlanStaleWhereTheSpeedIsTheSame) {
  Shelf shelf;
  shelf.models = {model_of(op_of(1024))};
  const planner::Plan best =
      plan_with(find_model({.given = {}, .kept = shelf.kept()}, question()).value(), question()).value();
  ASSERT_TRUE(best.is_cut());
  shelf.record.runs.assign(1, {best.op, best.variant, best.compute_us, best.communication_us});
  planner::Plan kept = planner::predict_cut(best.op, shelf.models.front(), {{512, 512}}).value();
  const auto why = [&] { return staleness_of(shelf.kept(), kept).value().why; };
  const std::string same =
      ", and the machine is as fast as it was then (by its last run: compute 1.00x, communication 1.00x "
      "the profiled time)";
  EXPECT_EQ(why(), "it was not raced" + same);
  kept.validation = planner::Validation{.fused_us = 1, .serial_us = 1, .pair_count = 6};
  EXPECT_EQ(why(), "its race left out the cut that the model prefers now" + same);
  kept.runners_up.push_back({best.cut, best.variant, best.makespan.us, "measured benefit 1.0 % against 2.0 %"});
  EXPECT_EQ(why(), "its race contradicts what the model predicts now" + same);
}

TEST(FindPlan, WhatIsAskedOfNowPassesOverWhatWasTuned) {
  Shelf shelf;
  shelf.models = {model_of(op_of(1024))};
  shelf.tuned(op_of(1024), 320);
  const PlanQuestion now = question_of_now();
  EXPECT_EQ(find_plan(shelf.sources(), question()).value().origin, Origin::Kept);
  const auto found = find_plan(shelf.sources(), now).value();
  EXPECT_EQ(found.origin, Origin::Model);
  EXPECT_NE(found.stored.plan.makespan.reason.find("at the speed that the lanes have now"), std::string::npos);
}

TEST(FindPlan, AGivenPlanAnswersNeitherForAnotherVariantNorForThePresentSpeed) {
  const auto plan = planner::predict_cut(op_of(1024), model_of(op_of(1024)), {{320, 704}}).value();
  const PlanSource given = given_plan("given plan", plan);
  PlanQuestion asked = question();
  asked.variant = plan.variant;
  EXPECT_TRUE(given.find(asked).ok());
  asked.variant = planner::Variant{"ring", {}};
  EXPECT_THAT(given.find(asked).error().message, HasSubstr("is of variant direct"));
  PlanQuestion now = question();
  now.time_lanes = [](const CostModel&) -> Result<std::vector<planner::TimedLanes>> {
    return std::vector<planner::TimedLanes>{};
  };
  EXPECT_THAT(given.find(now).error().message, HasSubstr("predicted at an earlier speed"));
}

TEST(FindModel, TakesTheNearestOfSeveralGivenModels) {
  std::vector<CostModel> given{model_of(op_of(128)), model_of(op_of(8192))};
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(find_model({.given = given}, question(op_of(6000))).value().model.op.m, 8192);
    EXPECT_EQ(find_model({.given = given}, question(op_of(256))).value().model.op.m, 128);
    std::ranges::reverse(given);
  }
}

TEST(FindModel, AHiddenModelOfTheSameOperatorSaysNothingOfMessages) {
  Shelf shelf;
  shelf.models = {model_of(op_of(1024)), model_of(op_of(1024))};
  for (auto& cost : shelf.models.back().variants) cost = planner::scaled(std::move(cost), 1, 2);
  const auto makespan_us = [&](std::int64_t m) {
    const auto asked = question(op_of(m));
    return plan_with(find_model({.given = {}, .kept = shelf.kept()}, asked).value(), asked).value().makespan.us;
  };
  const double with_hidden_us = makespan_us(2048);
  shelf.models.pop_back();
  EXPECT_DOUBLE_EQ(with_hidden_us, makespan_us(2048));
}

TEST(FindModel, PredictsBlocksThatSomebodyChose) {
  const FoundModel found{model_of(op_of(1024))};
  EXPECT_EQ(predict_with(found, question(), {{256, 768}}).value().cut.text(), "256 + 768");
  EXPECT_EQ(predict_with(found, question(), {{256, 7}}).error().field, "blocks");
}

class PlanFiles : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("mc2-sources-" + std::to_string(::getpid()));
};

TEST_F(PlanFiles, AnswerForTheirOwnOperatorAndMachine) {
  const auto path = directory_ / "plan.json";
  std::ofstream(path) << store::encode(planner::predict_cut(op_of(1024), model_of(op_of(1024)), {{128, 896}}).value());
  const PlanSource file = plan_file(path).value();
  EXPECT_EQ(file.find(question()).value().stored.plan.cut.text(), "128 + 896");
  EXPECT_EQ(file.find(question(op_of(2048))).error().code, ErrorCode::NotFound);
  PlanQuestion elsewhere = question();
  elsewhere.machine.fields["cpu_model"] = "another";
  EXPECT_EQ(file.find(elsewhere).error().code, ErrorCode::Stale);
  EXPECT_THAT(file.find(elsewhere).error().message, HasSubstr("cpu_model"));
  EXPECT_EQ(plan_file(directory_ / "none.json").error().code, ErrorCode::NotFound);
  const auto folder = plan_file(directory_).error();
  EXPECT_EQ(folder.code, ErrorCode::InvalidSpec);
  EXPECT_EQ(folder.field, directory_.string());
  EXPECT_THAT(folder.message, HasSubstr("is a directory, not a file"));
  std::ofstream(path) << "{";
  EXPECT_EQ(plan_file(path).error().field, path.string());
}

} // namespace
} // namespace mc2::finder::plan_source_test
