#include "mc2/profiler/tune.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "mc2/planner/cutting.hpp"
#include "mc2/planner/speed_spread.hpp"
#include "mc2/profiler/fit.hpp"
#include "support/invented_bench.hpp"

namespace mc2::profiler::tune_test {
namespace {

using planner::Variant;
using test::invented_op;
using test::InventedBench;
using test::InventedCosts;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const Variant kDirect{"direct", {}};
const Variant kRing{"ring", {}};

TuneSettings settings() {
  TuneSettings result;
  planner::PlanOptions options;
  options.alignment = options.min_block_rows = 64;
  result.plan = result.profile.plan = options;
  return result;
}

/// A keeper that records all that it is given.
class Notebook final : public Keeper {
 public:
  std::vector<planner::Sample> earlier_samples() override { return samples; }
  Result<void> append_samples(std::span<const planner::Sample> fresh) override {
    ++append_count;
    if (failing_append == append_count) return Error{ErrorCode::ReadOnly, "store", "is full"};
    samples.insert(samples.end(), fresh.begin(), fresh.end());
    return {};
  }
  Result<void> replace_samples(std::span<const planner::Sample> all) override {
    samples.assign(all.begin(), all.end());
    return {};
  }
  Result<void> keep_model(const planner::CostModel& model) override {
    models.push_back(model);
    return {};
  }
  Result<void> keep_race(const Race& race, std::span<const planner::Plan> contenders) override {
    EXPECT_EQ(race.contenders.size(), contenders.size());
    ++race_count;
    return {};
  }
  Result<void> keep_plan(const planner::Plan& plan) override {
    plans.push_back(plan);
    return {};
  }

  std::vector<planner::Sample> samples;
  std::vector<planner::CostModel> models;
  std::vector<planner::Plan> plans;
  int append_count = 0, failing_append = 0, race_count = 0;
};

/// The validation of a plan that does not cut has serial's time as its fused time, and no benefit.
void expect_serial_is_measured(const planner::Plan& plan, double serial_us) {
  ASSERT_TRUE(plan.validation.has_value());
  EXPECT_NEAR(plan.validation->serial_us, serial_us, 0.02 * serial_us);
  EXPECT_EQ(plan.validation->fused_us, plan.validation->serial_us);
  EXPECT_EQ(plan.validation->benefit, 0);
  EXPECT_GT(plan.validation->pair_count, 5);
  EXPECT_NE(plan.makespan.provenance, planner::Provenance::Measured);
}

TEST(Tune, KeepsTheFastestCutThatWasCheckedAndRaced) {
  InventedBench bench(invented_op(), {{kDirect, {}}});
  Notebook notebook;
  const auto tuned = tune(bench, settings(), notebook).value();
  ASSERT_TRUE(tuned.plan.is_cut());
  ASSERT_TRUE(tuned.plan.validation.has_value());
  // Uncut, the matmul takes 1044 us and the collective 783 us. n equal blocks take 20 n + 1024 us of matmul, then 15 +
  // 768 / n us of the last block's collective: at best 1144 + 143 us, for n = 6. Cuts with a short block at multiples
  // of 64 rows take about as long.
  EXPECT_NEAR(tuned.plan.validation->benefit, 1 - 1287.0 / 1827, 0.03);
  EXPECT_GT(tuned.plan.validation->benefit_low, 0.25);
  // The prediction stays in the plan beside the measurement.
  EXPECT_NE(tuned.plan.makespan.provenance, planner::Provenance::Measured);
  // For other days, plan and runners-up are predicted by the model that the race has corrected.
  const auto later = planner::with_spread(*tuned.model, planner::speed_spread({}));
  const auto predicted = [&](const planner::Variant& variant, const planner::Cut& cut) {
    return planner::predict_cut(bench.op(), later, variant, cut).value().makespan;
  };
  EXPECT_EQ(tuned.plan.makespan, predicted(tuned.plan.variant, tuned.plan.cut));
  EXPECT_FALSE(tuned.plan.runners_up.empty());
  for (const auto& loser : tuned.plan.runners_up)
    EXPECT_EQ(loser.makespan_us, predicted(loser.variant, loser.cut).us) << loser.cut.text();
  EXPECT_EQ(notebook.plans, std::vector{tuned.plan});
  EXPECT_EQ(notebook.models.back(), *tuned.model);
  EXPECT_EQ(notebook.race_count, 1);
  for (const auto& contender : tuned.contenders)
    EXPECT_THAT(bench.verified(), ::testing::Contains(contender.cut)) << contender.cut.text();
}

TEST(Tune, TriesCutsThatTheModelDoesNotPreferWhereTheBudgetHasTimeForThem) {
  /// Fused runs of two blocks are faster than the curves predict.
  class Odd final : public InventedBench {
   public:
    Odd() : InventedBench(invented_op(), {{kDirect, {}}}) {}
    Result<std::size_t> prepare(const planner::Plan& plan) override {
      auto number = InventedBench::prepare(plan);
      if (plan.cut.block_rows.size() == 2) two_.insert(number.value());
      return number;
    }
    double time_us(std::size_t prepared, RunPart part) override {
      const double us = InventedBench::time_us(prepared, part);
      return part == RunPart::Fused && two_.contains(prepared) ? 0.7 * us : us;
    }

   private:
    std::set<std::size_t> two_;
  };
  Odd bench;
  Notebook notebook;
  EXPECT_EQ(tune(bench, settings(), notebook).value().plan.cut.block_rows.size(), 2U);
}

TEST(Tune, KeepsSerialWhereTheLanesHoldEachOtherUp) {
  /// Fused runs take as long as serial ones.
  class Disturbed final : public InventedBench {
   public:
    Disturbed() : InventedBench(invented_op(), {{kDirect, {}}}) {}
    double time_us(std::size_t prepared, RunPart part) override {
      if (part != RunPart::Fused) return InventedBench::time_us(prepared, part);
      const double compute_us = InventedBench::time_us(prepared, RunPart::Compute);
      return compute_us + InventedBench::time_us(prepared, RunPart::Communication);
    }
  } bench;
  Notebook notebook;
  const auto tuned = tune(bench, settings(), notebook).value();
  EXPECT_FALSE(tuned.plan.is_cut());
  EXPECT_EQ(tuned.plan.schedule, planner::Schedule::Serial);
  expect_serial_is_measured(tuned.plan, 1827);
  EXPECT_THAT(tuned.plan.reason, HasSubstr("not faster than serial beyond the noise"));
  EXPECT_FALSE(tuned.plan.runners_up.empty());
}

TEST(Tune, SpendsItsBudgetOnceForProfilingAndRaces) {
  for (const int budget_ms : {400, 1000}) {
    InventedBench bench(invented_op(), {{kDirect, {}}});
    Notebook notebook;
    TuneSettings asked = settings();
    asked.budget = std::chrono::milliseconds(budget_ms);
    asked.profile.sweep.stopping.max_count = asked.race.max_rounds = 1'000'000; // only the budget ends it
    asked.profile.sweep.stopping.relative_half_width = asked.race.relative_half_width = 0;
    std::vector<std::int64_t> left_ms;
    TuneHooks hooks;
    hooks.on_progress = [&](const Progress& progress) { left_ms.push_back(progress.budget_left.value().count()); };
    const auto start = bench.now();
    ASSERT_TRUE(tune(bench, asked, notebook, hooks));
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(bench.now() - start);
    EXPECT_GT(spent.count(), budget_ms / 2);
    EXPECT_LE(spent.count(), budget_ms + 60); // a little more for the rounds that always run
    EXPECT_TRUE(std::ranges::is_sorted(left_ms, std::greater<>()));
  }
}

TEST(Tune, ResumesFromKeptSamples) {
  InventedBench first(invented_op(), {{kDirect, {}}}), second(invented_op(), {{kDirect, {}}});
  Notebook notebook;
  ASSERT_TRUE(profile(first, settings().profile, notebook));
  const auto count = notebook.samples.size();
  ASSERT_TRUE(profile(second, settings().profile, notebook));
  EXPECT_EQ(notebook.samples.size(), count); // the first profile had settled every case
  EXPECT_EQ(second.run_count(), 0);
}

TEST(Tune, CancelledKeepsWhatWasMeasured) {
  InventedBench bench(invented_op(), {{kDirect, {}}});
  Notebook notebook;
  TuneHooks hooks;
  hooks.is_cancelled = [&] { return bench.run_count() > 100; };
  const auto tuned = tune(bench, settings(), notebook, hooks);
  ASSERT_FALSE(tuned);
  EXPECT_EQ(tuned.error().code, ErrorCode::Cancelled);
  EXPECT_FALSE(notebook.samples.empty());
  EXPECT_TRUE(notebook.plans.empty());
}

TEST(Tune, EndsWhenSamplesCannotBeKept) {
  InventedBench bench(invented_op(), {{kDirect, {}}});
  Notebook notebook;
  notebook.failing_append = 2;
  EXPECT_EQ(tune(bench, settings(), notebook).error().code, ErrorCode::ReadOnly);
}

TEST(Tune, AKnownModelIsRacedButNotKept) {
  InventedBench bench(invented_op(), {{kDirect, {}}}), other(invented_op(), {{kDirect, {}}});
  Notebook notebook, fresh;
  auto asked = settings();
  asked.known_model = std::make_shared<planner::CostModel>(*tune(bench, settings(), notebook).value().model);
  const auto tuned = tune(other, asked, fresh).value();
  EXPECT_TRUE(fresh.samples.empty());
  EXPECT_TRUE(fresh.models.empty());
  EXPECT_EQ(fresh.plans.front().cut, tuned.plan.cut);
}

TEST(Tune, AKnownModelMayBeOfAnotherLength) {
  planner::OpSpec longer = invented_op();
  longer.m *= 2;
  InventedBench bench(longer, {{kDirect, {}}}), other(invented_op(), {{kDirect, {}}});
  Notebook notebook, fresh;
  auto asked = settings();
  asked.known_model = std::make_shared<planner::CostModel>(*tune(bench, settings(), notebook).value().model);
  const auto tuned = tune(other, asked, fresh);
  ASSERT_TRUE(tuned) << tuned.error().text();
  EXPECT_TRUE(fresh.samples.empty());
  EXPECT_EQ(tuned.value().plan.op, invented_op());
  EXPECT_TRUE(tuned.value().plan.validation.has_value());
}

TEST(Tune, PlansWithTheVariantThatIsAskedForOnly) {
  const std::vector<std::pair<Variant, InventedCosts>> costs{{kDirect, {}}, {kRing, {20, 1, 15, 2}}};
  InventedBench bench(invented_op(), costs);
  Notebook notebook;
  auto asked = settings();
  asked.only = kRing;
  EXPECT_EQ(tune(bench, asked, notebook).value().plan.variant, kRing);
  asked.only = Variant{"tree", {}};
  InventedBench again(invented_op(), costs);
  EXPECT_EQ(tune(again, asked, notebook).error().code, ErrorCode::NotFound);
}

TEST(Tune, ARivalThatNoModelKnowsMayWin) {
  static constexpr std::size_t kRivalOffset = 1000;
  class WithRival final : public InventedBench {
   public:
    WithRival() : InventedBench(invented_op(), {{kDirect, {}}}) {}
    Result<std::vector<planner::Plan>> rivals(const planner::CostModel& model) override {
      auto plan = planner::serial_plan(op(), model, kDirect).value();
      plan.variant = kRing;
      return std::vector{plan};
    }
    Result<std::size_t> prepare(const planner::Plan& plan) override {
      auto known = plan;
      known.variant = kDirect;
      const auto number = InventedBench::prepare(known);
      return plan.variant == kRing ? number.value() + kRivalOffset : number.value();
    }
    double time_us(std::size_t prepared, RunPart part) override {
      if (prepared < kRivalOffset) return InventedBench::time_us(prepared, part);
      const double us = InventedBench::time_us(prepared - kRivalOffset, part);
      return part == RunPart::Fused ? us / 10 : us;
    }
  } bench;
  Notebook notebook;
  const auto tuned = tune(bench, settings(), notebook).value();
  EXPECT_EQ(tuned.plan.variant, kRing);
  ASSERT_TRUE(tuned.plan.validation.has_value());
  EXPECT_GT(tuned.plan.validation->benefit, 0.8);
  EXPECT_EQ(tuned.model->cost_of(kRing), nullptr); // the model has no costs of it
}

TEST(Tune, TellsWhatItDoes) {
  InventedBench bench(invented_op(), {{kDirect, {}}});
  Notebook notebook;
  std::vector<std::string> labels, lines;
  TuneHooks hooks;
  hooks.on_progress = [&](const Progress& p) {
    EXPECT_GE(p.fraction, 0);
    EXPECT_LE(p.fraction, 1);
    if (labels.empty() || labels.back() != p.label) labels.push_back(p.label);
  };
  hooks.on_line = hooks.on_race = [&](const std::string& line) { lines.push_back(line); };
  auto asked = settings();
  ASSERT_TRUE(tune(bench, asked, notebook, hooks));
  EXPECT_THAT(labels, ElementsAre(HasSubstr("profile matmul_all_reduce"), "race 1"));
  EXPECT_THAT(lines.front(), HasSubstr("of the plan so far"));
  EXPECT_THAT(lines, Contains(::testing::StartsWith("race matmul_all_reduce")));
  EXPECT_THAT(lines.back(), ::testing::StartsWith("plan matmul_all_reduce"));
}

TEST(Profile, TimesTheBlocksOfThePlanThatItLeadsTo) {
  InventedBench bench(invented_op(), {{kDirect, {}}});
  Notebook notebook;
  const auto asked = settings();
  const auto summary = profile(bench, asked.profile, notebook).value();
  auto options = *asked.profile.plan;
  options.require_significant_gain = false;
  const auto model = fit_cost_model({bench.op(), bench.fingerprint(), summary.samples}).value().model;
  const auto plan = planner::make_plan(bench.op(), model, options).value();
  for (const auto length : plan.cut.block_rows)
    for (const auto component : {planner::Component::Matmul, planner::Component::Collective})
      EXPECT_TRUE(std::ranges::any_of(summary.samples, [&](const auto& sample) {
        return sample.block_rows == length && sample.component == component;
      })) << length;
}

TEST(Profile, TimesLengthsBetweenWhereACurveDoesNotFollow) {
  auto op = invented_op();
  op.m = 1536;
  auto asked = settings();
  asked.profile.plan->alignment = asked.profile.plan->min_block_rows = 32;
  std::vector<std::string> lines;
  TuneHooks hooks;
  hooks.on_line = [&](const std::string& line) { lines.push_back(line); };

  InventedBench even(op, {{kDirect, {}}});
  Notebook notebook;
  ASSERT_TRUE(profile(even, asked.profile, notebook, hooks));
  EXPECT_THAT(lines, Each(Not(HasSubstr("between those that were timed"))));

  // The times rise in 27.4 steps of 56 rows. The grid has too few multiples of 32 rows to show the steps.
  InventedCosts stairs;
  stairs.step_rows = 56;
  InventedBench uneven(op, {{kDirect, stairs}});
  Notebook another;
  const auto summary = profile(uneven, asked.profile, another, hooks).value();
  EXPECT_THAT(lines, Contains(HasSubstr("between those that were timed")));
  const auto model = fit_cost_model({op, uneven.fingerprint(), summary.samples}).value().model;
  const auto& curve = model.variants.front().compute.curve;
  for (const std::int64_t rows : {64, 96, 160, 192, 416, 1024})
    EXPECT_NEAR(curve.time_us(static_cast<double>(rows)) / stairs.block_us(true, rows), 1, 0.01) << rows;
}

TEST(Profile, OfFewMeasurementsTakesTheMostTellingOnesAndNoMore) {
  InventedBench bench(invented_op(), {{kDirect, {}}});
  Notebook notebook;
  auto asked = settings().profile;
  asked.max_measurement_count = kMinMeasurementCount;
  const auto summary = profile(bench, asked, notebook).value();
  EXPECT_EQ(summary.measurement_count, kMinMeasurementCount);
  EXPECT_TRUE(fit_cost_model({bench.op(), bench.fingerprint(), summary.samples}).ok());
  EXPECT_EQ(profile(bench, asked, notebook).value().samples.size(), summary.samples.size()); // the budget is spent
}

TEST(Profile, OfFewMeasurementsThatIsTakenUpAgainMeasuresNoMore) {
  InventedBench bench(invented_op(), {{kDirect, {}}});
  Notebook notebook;
  auto asked = settings().profile;
  asked.max_measurement_count = 40; // enough for the grid and for blocks of the plan
  const auto summary = profile(bench, asked, notebook).value();
  EXPECT_EQ(summary.measurement_count, 40);
  const auto again = profile(bench, asked, notebook).value();
  EXPECT_EQ(again.samples.size(), summary.samples.size());
  EXPECT_EQ(again.measurement_count, 40);
}

TEST(Profile, OfFewMeasurementsFitsEveryVariant) {
  InventedBench bench(invented_op(), {{kDirect, {}}, {kRing, {}}});
  Notebook notebook;
  auto asked = settings().profile;
  asked.max_measurement_count = kMinMeasurementCount;
  const auto summary = profile(bench, asked, notebook).value();
  EXPECT_EQ(fit_cost_model({bench.op(), bench.fingerprint(), summary.samples}).value().model.variants.size(), 2U);
}

TEST(Profile, FollowsPlansOfTheBenchsVariantsOnly) {
  Notebook notebook;
  InventedBench fast(invented_op(), {{kRing, {1, 0.1, 1, 0.1}}});
  ASSERT_TRUE(profile(fast, settings().profile, notebook).ok());
  InventedBench slow(invented_op(), {{kDirect, {}}});
  const std::size_t before = notebook.samples.size();
  const auto summary = profile(slow, settings().profile, notebook).value();
  for (std::size_t i = before; i < summary.samples.size(); ++i) EXPECT_EQ(summary.samples[i].variant, "direct");
}

/// A bench whose times halve where the size doubles, so that no curve can be fitted.
class Erratic final : public InventedBench {
 public:
  explicit Erratic(double overlap) : InventedBench(invented_op(), {{kDirect, {}}, {kRing, {}}}), overlap_(overlap) {}
  Result<Measure> prepare_case(const ProfileCase& one, const Variant& variant) override {
    auto measure = InventedBench::prepare_case(one, variant).value();
    return Measure([measure] {
      auto samples = measure();
      for (auto& sample : samples) sample.time = std::chrono::microseconds(2'000'000 / sample.block_rows);
      return samples;
    });
  }
  double time_us(std::size_t prepared, RunPart part) override {
    return InventedBench::time_us(prepared, part) * (part == RunPart::Fused ? overlap_ : 1);
  }

 private:
  double overlap_;
};

TEST(Tune, WithoutAModelRacesAFewCutsAndSaysSo) {
  Erratic bench(1);
  Notebook notebook;
  std::vector<std::string> lines;
  TuneHooks hooks;
  hooks.on_line = [&](const std::string& line) { lines.push_back(line); };
  const auto tuned = tune(bench, settings(), notebook, hooks).value();
  EXPECT_FALSE(tuned.model.has_value());
  EXPECT_TRUE(notebook.models.empty());
  EXPECT_EQ(notebook.plans, std::vector{tuned.plan});
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("no model: ")));
  ASSERT_TRUE(tuned.plan.validation.has_value());
  // Among 2, 4, 8 and 16 equal blocks 8 are fastest: 20 * 8 + 1024 + 15 + 96 = 1295 us. 4 take 1311 us, 16 take 1407.
  EXPECT_EQ(tuned.plan.cut.text(), "8 x 128");
  EXPECT_EQ(tuned.plan.strategy, "raced");
  EXPECT_EQ(tuned.plan.makespan.us, 0); // without a model there is no prediction
  EXPECT_THAT(tuned.plan.makespan.reason, HasSubstr("raced, no model: "));
  EXPECT_TRUE(tuned.plan.validate());
}

TEST(Tune, WithoutAModelKeepsSerialWhereNoCutIsFaster) {
  Erratic bench(2);
  Notebook notebook;
  const auto tuned = tune(bench, settings(), notebook).value();
  EXPECT_FALSE(tuned.plan.is_cut());
  EXPECT_EQ(tuned.plan.schedule, planner::Schedule::Serial);
  expect_serial_is_measured(tuned.plan, 1827);
  EXPECT_THAT(tuned.plan.reason, HasSubstr("do not cut"));
}

TEST(Tune, WithoutAModelRacesTheVariantThatIsAskedForOnly) {
  Erratic bench(1);
  Notebook notebook;
  auto asked = settings();
  asked.only = kRing;
  const auto tuned = tune(bench, asked, notebook).value();
  EXPECT_EQ(tuned.plan.variant, kRing);
  for (const auto& contender : tuned.contenders) EXPECT_EQ(contender.variant, kRing);
}

TEST(Tune, AnOperatorThatCannotBeCutIsKeptAsSerial) {
  auto op = invented_op();
  op.m = 1;
  op.n = 8;
  InventedBench bench(op, {{kDirect, {}}});
  Notebook notebook;
  const auto tuned = tune(bench, settings(), notebook).value();
  EXPECT_FALSE(tuned.plan.is_cut());
  EXPECT_EQ(notebook.plans.size(), 1U);
}

TEST(Tune, TakesTheMachinesOptionsWhereNoneAreGiven) {
  Notebook unset, given;
  InventedBench one(invented_op(), {{kDirect, {}}}, false, "host"),
      other(invented_op(), {{kDirect, {}}}, false, "host");
  auto asked = settings();
  asked.plan = planner::default_options_on(one.fingerprint());
  ASSERT_EQ(asked.plan->alignment, 64);
  EXPECT_EQ(tune(one, {}, unset).value().plan, tune(other, asked, given).value().plan);
}

TEST(Tune, RefusesCountsBeforeAnythingRuns) {
  InventedBench bench(invented_op(), {{kDirect, {}}});
  Notebook notebook;
  auto asked = settings();
  asked.plan->counts = {1, 2};
  const auto refused = tune(bench, asked, notebook);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "counts");
  EXPECT_TRUE(notebook.samples.empty());
}

TEST(Tune, WithoutAModelSaysWhereTheOptionsLeaveNoCutToRace) {
  Erratic bench(1);
  Notebook notebook;
  auto asked = settings();
  asked.plan->max_block_count = 1;
  const auto tuned = tune(bench, asked, notebook).value();
  EXPECT_FALSE(tuned.model.has_value());
  EXPECT_FALSE(tuned.plan.is_cut());
  EXPECT_THAT(tuned.plan.reason, HasSubstr("leave no cut of 1024 rows"));
}

TEST(Profile, VariantsThatNeverWinAreLeftOutAndReleased) {
  // Both variants use the same matmul, so a few runs show which collectives are worth measuring.
  InventedBench bench(invented_op(), {{kDirect, {}}, {kRing, {20, 1, 30, 2}}}, true);
  Notebook notebook;
  std::vector<std::string> lines;
  TuneHooks hooks;
  hooks.on_line = [&](const std::string& line) { lines.push_back(line); };
  ASSERT_TRUE(profile(bench, settings().profile, notebook, hooks));
  EXPECT_THAT(bench.released(), ElementsAre("ring"));
  EXPECT_THAT(lines.front(),
              HasSubstr("left out, because a few runs were not faster than other variants at any size: ring;"));
  for (const auto& sample : notebook.samples) EXPECT_EQ(sample.variant, "direct");
}

} // namespace
} // namespace mc2::profiler::tune_test
