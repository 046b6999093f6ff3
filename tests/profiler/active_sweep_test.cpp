#include "mc2/profiler/active_sweep.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "support/active_truth.hpp"
#include "support/models.hpp"

namespace mc2::profiler::active_sweep_test {
namespace {

using planner::Sample;
using testing::ActiveTruth;
using testing::all_reduce_op;

const planner::Fingerprint kFingerprint{{{"backend", "test"}}};

ActiveOptions options_of(std::int64_t m) {
  ActiveOptions options;
  options.question.op = all_reduce_op(m, 1024, 1024, planner::DType::F32, 2);
  options.question.variant = "direct";
  options.question.draw_count = 64;
  options.question.tolerated_regret = 0; // no noise-free truth ends it before its budget
  options.max_measurement_count = 30;
  return options;
}

/// A machine whose time passes only while something is measured.
struct World {
  ActiveTruth truth;
  std::chrono::steady_clock::time_point now{};
  std::vector<ActiveCase> visits{}; ///< warm-up included
  std::vector<Sample> received{};
  std::vector<ActiveRound> rounds{};
  int cancel_after = 1'000'000;
  int throw_after = 1'000'000;

  [[nodiscard]] ActiveHooks hooks() {
    ActiveHooks hooks;
    hooks.make_case = [this](const ActiveCase& one) -> Result<SweepCase> {
      return SweepCase{one.text(planner::CutAxis::Rows), [this, one] { return visit(one); }, {}};
    };
    hooks.now = [this] { return now; };
    hooks.on_round = [this](const ActiveRound& round) { rounds.push_back(round); };
    hooks.on_samples = [this](std::span<const Sample> s) { received.insert(received.end(), s.begin(), s.end()); };
    hooks.is_cancelled = [this] { return static_cast<int>(visits.size()) >= cancel_after; };
    return hooks;
  }

  std::vector<Sample> visit(const ActiveCase& one) {
    if (static_cast<int>(visits.size()) >= throw_after) throw std::runtime_error("the machine broke");
    visits.push_back(one);
    now += std::chrono::milliseconds(10);
    return truth.measure(one, static_cast<int>(visits.size()));
  }
};

ActiveSummary swept(World& world, const ActiveOptions& options, std::span<const Sample> earlier = {}) {
  return run_active_sweep(options, world.hooks(), kFingerprint, earlier).value();
}

TEST(ActiveSweep, EndsWithinItsMeasurementsAndSaysSo) {
  const ActiveOptions options = options_of(4096);
  World world{{options.question.op}};
  world.truth.noise_percent = 20;
  const ActiveSummary summary = swept(world, options);
  EXPECT_EQ(summary.measurement_count, 30);
  EXPECT_EQ(summary.stop, ActiveStop::NotYet);
  EXPECT_NE(summary.termination.find("all 30 measurements are used; the plan is still expected to lose"),
            std::string::npos)
      << summary.termination;
}

TEST(ActiveSweep, WarmsEachCaseUpOnceOutsideTheCount) {
  ActiveOptions options = options_of(4096);
  options.max_measurement_count = 7;
  World world{{options.question.op}};
  EXPECT_EQ(swept(world, options).measurement_count, 7);
  EXPECT_EQ(world.visits.size(), 14u); // 7 cases, each run once untimed
}

TEST(ActiveSweep, StopsBeforeItsBudgetWhenThePlanIsSure) {
  ActiveOptions options = options_of(4096);
  options.question.tolerated_regret = 0.02;
  World world{{options.question.op}};
  const ActiveSummary summary = swept(world, options);
  EXPECT_EQ(summary.stop, ActiveStop::RegretTolerated) << summary.termination;
  EXPECT_LT(summary.measurement_count, 30);
  EXPECT_LE(summary.regret, 0.02);
}

TEST(ActiveSweep, ExplainsEachRound) {
  const ActiveOptions options = options_of(4096);
  World world{{options.question.op}};
  world.truth.noise_percent = 5;
  const ActiveSummary summary = swept(world, options);
  ASSERT_GE(world.rounds.size(), 2u);
  EXPECT_EQ(world.rounds.size(), summary.rounds.size());
  const ActiveRound& first = summary.rounds.front();
  EXPECT_LT(first.regret_before, 0); // nothing was known
  EXPECT_GE(first.regret_after, 0);
  EXPECT_EQ(first.text().find("round 0: compute"), 0u) << first.text();
  EXPECT_EQ(first.text().find(" -> "), std::string::npos);
  EXPECT_NE(first.text().find("; plan "), std::string::npos);
  EXPECT_DOUBLE_EQ(summary.rounds[1].regret_before, first.regret_after);
  EXPECT_NE(summary.rounds[1].text().find(" -> "), std::string::npos);
}

TEST(ActiveSweep, GivesAProfileThatAModelFits) {
  ActiveOptions options = options_of(4096);
  options.max_measurement_count = kMinActiveMeasurements;
  World world{{options.question.op}};
  const auto fitted = fit_cost_model({options.question.op, kFingerprint, swept(world, options).samples});
  ASSERT_TRUE(fitted.ok()) << fitted.error().text();
  const auto& cost = fitted.value().model.variants.front();
  // The truth, without noise: 10 + 1000 us for 1000 rows, and the slow-downs 1.1 and 1.2.
  EXPECT_NEAR(cost.compute.curve.time_us(1000), 1010, 1);
  EXPECT_NEAR(cost.compute.slowdown, 1.1, 1e-3);
  EXPECT_NEAR(cost.communication.slowdown, 1.2, 1e-3);
}

TEST(ActiveSweep, ResumesFromEarlierSamples) {
  ActiveOptions options = options_of(4096);
  options.max_measurement_count = 15;
  World first{{options.question.op}};
  first.truth.noise_percent = 10;
  const ActiveSummary half = swept(first, options);
  options.max_measurement_count = 25;
  World second{{options.question.op}};
  second.truth.noise_percent = 10;
  const ActiveSummary whole = swept(second, options, half.samples);
  EXPECT_EQ(whole.measurement_count, 25);
  EXPECT_GT(whole.samples.size(), half.samples.size());
  EXPECT_GT(whole.rounds.front().number, half.rounds.back().number);
  for (const ActiveRound& round : whole.rounds) EXPECT_GE(round.regret_before, 0); // known from the start
  // With its budget used up, it measures nothing more.
  World third{{options.question.op}};
  EXPECT_EQ(swept(third, options, whole.samples).samples.size(), whole.samples.size());
  EXPECT_TRUE(third.visits.empty());
}

TEST(ActiveSweep, HandsOverEverythingWhenCancelled) {
  const ActiveOptions options = options_of(4096);
  World world{{options.question.op}};
  world.cancel_after = 10; // 7 warm-ups and 3 visits
  const auto summary = run_active_sweep(options, world.hooks(), kFingerprint, {});
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().code, ErrorCode::Cancelled);
  EXPECT_EQ(world.received.size(), 3u);
}

TEST(ActiveSweep, HandsOverEverythingBeforeAnExceptionPasses) {
  const ActiveOptions options = options_of(4096);
  World world{{options.question.op}};
  world.throw_after = 9;
  EXPECT_THROW(static_cast<void>(run_active_sweep(options, world.hooks(), kFingerprint, {})), std::runtime_error);
  EXPECT_EQ(world.received.size(), 2u);
}

TEST(ActiveSweep, StopsWhenTheTimeIsSpent) {
  ActiveOptions options = options_of(4096);
  options.budget = std::chrono::milliseconds(1);
  World world{{options.question.op}};
  world.truth.noise_percent = 20;
  const ActiveSummary summary = swept(world, options);
  EXPECT_EQ(summary.rounds.size(), 1u);
  EXPECT_EQ(summary.termination.find("the time budget is spent"), 0u) << summary.termination;
}

TEST(ActiveSweep, ReturnsWhatKeepsACaseFromBeingMade) {
  const ActiveOptions options = options_of(4096);
  World world{{options.question.op}};
  ActiveHooks hooks = world.hooks();
  hooks.make_case = [](const ActiveCase&) -> Result<SweepCase> {
    return Error{ErrorCode::Unsupported, "backend", "cannot"};
  };
  EXPECT_EQ(run_active_sweep(options, hooks, kFingerprint, {}).error().code, ErrorCode::Unsupported);
}

TEST(ActiveSweep, RefusesBadOptionsAndHooks) {
  const auto refused = [](auto change) {
    ActiveOptions options = options_of(4096);
    World world{{options.question.op}};
    ActiveHooks hooks = world.hooks();
    change(options, hooks);
    const auto summary = run_active_sweep(options, hooks, kFingerprint, {});
    return summary ? std::string() : summary.error().field;
  };
  EXPECT_EQ(refused([](auto& o, auto&) { o.max_measurement_count = 6; }), "max_measurement_count");
  EXPECT_EQ(refused([](auto& o, auto&) { o.warmup_count = -1; }), "warmup_count");
  EXPECT_EQ(refused([](auto& o, auto&) { o.budget = std::chrono::milliseconds(-1); }), "budget");
  EXPECT_EQ(refused([](auto& o, auto&) { o.question.variant.clear(); }), "question.variant");
  EXPECT_EQ(refused([](auto& o, auto&) { o.fit.robust_scale = 0; }), "robust_scale");
  EXPECT_EQ(refused([](auto&, auto& h) { h.make_case = nullptr; }), "hooks.make_case");
  EXPECT_EQ(refused([](auto&, auto& h) { h.now = nullptr; }), "hooks.now");
}

RC_GTEST_PROP(ActiveSweep, EndsWithinItsBudgetOnAnyAxis, ()) {
  const auto m = *rc::gen::inRange<std::int64_t>(1, 5000);
  ActiveOptions options = options_of(m);
  options.max_measurement_count = *rc::gen::inRange(7, 20);
  const std::int64_t axis = planner::traits_of(options.question.op.kind).cut_axis_length(options.question.op);
  World world{{options.question.op}};
  world.truth.noise_percent = *rc::gen::inRange(0, 30);
  const ActiveSummary summary = swept(world, options);
  RC_ASSERT(summary.measurement_count <= options.max_measurement_count);
  for (const ActiveCase& one : world.visits) RC_ASSERT(one.block_rows >= 1 && one.block_rows <= axis);
  World again{{options.question.op}};
  again.truth.noise_percent = world.truth.noise_percent;
  RC_ASSERT(swept(again, options).samples == summary.samples);
}

} // namespace
} // namespace mc2::profiler::active_sweep_test
