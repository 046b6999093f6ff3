#include "mc2/finder/find_ranges.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "mc2/store/codec.hpp"
#include "support/models.hpp"

namespace mc2::finder::find_ranges_test {
namespace {

using planner::CostModel;
using planner::OpSpec;
using planner::PlanRanges;
using ::testing::HasSubstr;
using ::testing::Not;

OpSpec op_of(std::int64_t m) { return mc2::testing::all_reduce_op(m, 1024, 1024, planner::DType::F32, 2); }

/// A model whose link takes 1 us for each 4 KiB and whose matmul takes `us_per_row`.
CostModel model_of(std::int64_t m, double us_per_row) {
  const auto axis = planner::compute_axis(op_of(m));
  return mc2::testing::model_of(op_of(m), mc2::testing::affine(axis, 10, us_per_row),
                                mc2::testing::affine(planner::CurveAxis::Bytes, 20, 1.0 / 4096));
}

/// Finds models as a store does: the nearest one, but for a question cut by columns only one of the same m.
struct Models {
  std::map<std::int64_t, CostModel> by_m;

  void add(std::int64_t m, double us_per_row) { by_m[m] = model_of(m, us_per_row); }
  [[nodiscard]] Result<FoundModel> find(const PlanQuestion& question) const {
    const CostModel* nearest = nullptr;
    const auto far = [&](const planner::CostModel& model) { return planner::length_distance(model.op, question.op); };
    for (const auto& [m, model] : by_m)
      if (planner::has_same_block_costs(model.op, question.op) && (!nearest || far(model) < far(*nearest)))
        nearest = &model;
    if (!nearest) return Error{ErrorCode::NotFound, "", "no model of m=" + std::to_string(question.op.m)};
    return FoundModel{.model = *nearest};
  }
  [[nodiscard]] auto finder() const {
    return [this](const PlanQuestion& question) { return find(question); };
  }
};

PlanQuestion question(std::int64_t last_m) { return {.op = op_of(last_m), .machine = model_of(1024, 1).fingerprint}; }

TEST(FindRanges, TakeEachMByTheModelThatAnswersForItAlone) {
  Models models;
  models.add(1024, 1);
  models.add(2048, 0.2); // the library takes another matmul from there on
  const PlanRanges ranges = find_ranges(models.finder(), question(3000), 100).value();
  ASSERT_TRUE(ranges.validate());
  EXPECT_EQ(ranges.planned_count, 2901);
  EXPECT_TRUE(ranges.gaps.empty());
  for (std::int64_t m = 100; m <= 3000; ++m) {
    PlanQuestion asked = question(m);
    const auto found = models.find(asked).value();
    const auto own = plan_with(found, asked).value();
    const auto plan = planner::plan_at(ranges, m).value();
    const double us = plan.overlaps() ? planner::predict_cut(plan.op, found.model, plan.cut).value().makespan.us
                                      : predict_uncut_with(found, plan.op, plan.variant).value().makespan.us;
    ASSERT_LE(us, own.makespan.us * (1 + planner::kRangeTolerance) * (1 + 1e-9)) << m << ": " << plan.cut.text();
  }
}

TEST(FindRanges, PlanMThatAreCutByColumnsOneByOne) {
  Models models;
  models.add(2, 1);
  models.add(3, 1);
  models.add(64, 1);
  models.add(1024, 1);
  PlanQuestion whole = question(1024);
  std::vector<std::int64_t> done;
  whole.on_planned = [&](std::int64_t m) { done.push_back(m); };
  const PlanRanges ranges = find_ranges(models.finder(), whole, 1).value();
  ASSERT_TRUE(ranges.validate());
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_TRUE(std::ranges::includes(done, std::vector<std::int64_t>{1, 2, 3, 63, 64, 1024}));
  for (const std::int64_t m : {2, 3, 64}) {
    PlanQuestion asked = question(m);
    EXPECT_EQ(planner::plan_at(ranges, m).value().cut, plan_with(models.find(asked).value(), asked).value().cut);
  }
  ASSERT_EQ(ranges.gaps.size(), 2U); // m = 1, and m from 4 to 63
  EXPECT_EQ(ranges.gaps[1].first_m, 4);
  EXPECT_EQ(ranges.gaps[1].last_m, 63);
  EXPECT_THAT(ranges.gaps[1].reason, HasSubstr("profile each such m"));
  EXPECT_EQ(ranges.planned_count, 960 + 3);
}

/// No model for any m: for up to 64 rows because of m, otherwise because of the topology.
Result<FoundModel> without_models(const PlanQuestion& question) {
  if (question.op.m <= 64) return Error{ErrorCode::Infeasible, "m", "is " + std::to_string(question.op.m)};
  return Error{ErrorCode::Infeasible, "topology.algorithms", "name none"};
}

TEST(FindRanges, WithoutAnyPlanSayWhatHoldsForTheMostM) {
  for (const auto kind : {planner::OpKind::MatmulReduceScatter, planner::OpKind::MatmulAllReduce}) {
    PlanQuestion asked = question(1024);
    asked.op.kind = kind;
    EXPECT_EQ(find_ranges(without_models, asked, 8).error().field, "topology.algorithms");
    asked.op.m = 100;
    EXPECT_EQ(find_ranges(without_models, asked, 8).error().text(), "m: is 8");
  }
}

TEST(FindRanges, FewRowsThatNoProfileHelpsSayWhy) {
  Models models;
  models.add(1024, 1);
  const auto not_few = [&](const PlanQuestion& asked) {
    return asked.op.m <= 64 ? without_models(asked) : models.find(asked);
  };
  const PlanRanges ranges = find_ranges(not_few, question(1024), 8).value();
  ASSERT_EQ(ranges.gaps.size(), 1U);
  EXPECT_EQ(ranges.gaps[0], (planner::PlanGap{8, 64, "m: is 8"}));
}

TEST(FindRanges, AGapEndsWhereTheReasonDoes) {
  Models models;
  models.add(1024, 1);
  const auto from_200 = [&](const PlanQuestion& asked) {
    return asked.op.m < 200 ? without_models(asked) : models.find(asked);
  };
  PlanQuestion asked = question(1024);
  asked.op.kind = planner::OpKind::MatmulReduceScatter; // cut by rows whatever m
  models.by_m[1024].op.kind = asked.op.kind;
  const PlanRanges ranges = find_ranges(from_200, asked, 8).value();
  ASSERT_TRUE(ranges.validate());
  ASSERT_EQ(ranges.gaps.size(), 2U);
  EXPECT_EQ(ranges.gaps[0], (planner::PlanGap{8, 64, "m: is 8"}));
  EXPECT_EQ(ranges.gaps[1], (planner::PlanGap{66, 198, "topology.algorithms: name none"}));
}

/// Many runs of m rows that were off as `run` says, so that the spread is that of these runs.
std::vector<planner::SpeedRatio> runs_like(const FoundModel& found, std::int64_t m, planner::SpeedRatio run) {
  run.serial_us = predict_uncut_with(found, op_of(m), found.model.variants.front().variant).value().serial_us;
  return {60, run};
}

TEST(FindRanges, AreLessSureAsLaterRunsSay) {
  Models models;
  models.add(1024, 1);
  const auto unsure = [&](const PlanQuestion& asked) {
    auto found = models.find(asked);
    found.value().ratios = runs_like(found.value(), 1024, {.overlap = std::exp(0.3)});
    return found;
  };
  const PlanRanges sure = find_ranges(models.finder(), question(1024), 1024).value();
  const PlanRanges wide = find_ranges(unsure, question(1024), 1024).value();
  EXPECT_LT(wide.ranges[0].benefit_interval->low, sure.ranges[0].benefit_interval->low - 0.1);
}

// No run of this operator is known, but longer and shorter runs of others are.
TEST(FindRanges, EachMIsAsSureAsRunsOfItsLengthWere) {
  Models models;
  models.add(1024, 1);
  const auto unsure_above = [&](const PlanQuestion& asked) {
    auto found = models.find(asked);
    const auto longer = runs_like(found.value(), 3000, {.overlap = std::exp(0.3)});
    found.value().ratios = runs_like(found.value(), 100, {.overlap = std::exp(0.02)});
    found.value().ratios->insert(found.value().ratios->end(), longer.begin(), longer.end());
    return found;
  };
  const auto low_at = [&](std::int64_t m, std::int64_t first_m) {
    const PlanRanges ranges = find_ranges(unsure_above, question(1000), first_m).value();
    const auto at = std::ranges::find_if(ranges.ranges, [m](const auto& range) { return range.last_m >= m; });
    return at->benefit_interval->low;
  };
  EXPECT_NEAR(low_at(1000, 100), low_at(1000, 800), 0.02);
}

// Each lane was off by 80 %, but whole runs by 5 % only, and the narrower spread holds.
TEST(FindRanges, ATimeIsAsSureAsEarlierRunsWere) {
  Models models;
  models.add(1024, 1);
  const PlanQuestion asked = question(1024);
  FoundModel found = models.find(asked).value();
  const auto factor = [](double log_ratio) { return std::exp(log_ratio); };
  planner::SpeedRatio run{factor(0.8), factor(0.8), factor(0.02), 0, factor(0.05)};
  const FoundModel pure = found;
  found.ratios = runs_like(pure, 1024, run);
  const auto width = [&](const planner::Plan& plan) {
    return (plan.makespan.high_us - plan.makespan.low_us) / plan.makespan.us;
  };
  EXPECT_LT(width(plan_with(found, asked).value()), 0.3);
  EXPECT_GE(width(plan_with(found, asked).value()), 0.1);
  run.makespan = factor(2); // wider than the lanes' spread, which then holds
  found.ratios = runs_like(pure, 1024, run);
  EXPECT_GT(width(plan_with(found, asked).value()), 1);
}

TEST(FindRanges, TakeEachMAtTheSpeedOfRunsOfItsLength) {
  Models models;
  models.add(1024, 1);
  const auto slower_below = [&](const PlanQuestion& asked) {
    auto found = models.find(asked);
    found.value().run_speeds = {{std::log(3.0), 0, 100}, {0, 0, 1000}};
    found.value().ratios = runs_like(found.value(), 1000, {});
    return found;
  };
  const PlanRanges ranges = find_ranges(slower_below, question(1000), 100).value();
  ASSERT_TRUE(ranges.validate());
  EXPECT_EQ(ranges.planned_count, 901);
  EXPECT_TRUE(ranges.gaps.empty());
  for (const std::int64_t m : {100, 399, 400, 1000}) {
    const auto found = slower_below(question(m)).value();
    const auto own = plan_with(found, question(m)).value();
    const auto plan = planner::plan_at(ranges, m).value();
    const double us = plan.overlaps() ? predict_with(found, question(m), plan.cut).value().makespan.us
                                      : predict_uncut_with(found, plan.op, plan.variant).value().makespan.us;
    EXPECT_LE(us, own.makespan.us * (1 + planner::kRangeTolerance) * (1 + 1e-9)) << m;
  }
}

// The matmul does a part of the collective: a saving of so many us, whose share depends on the message's length.
TEST(FindRanges, TakeASavingAsThatMAlone) {
  Models models;
  models.add(4096, 0.1);
  CostModel& model = models.by_m[4096];
  model.variants.front().communication.curve = mc2::testing::affine(planner::CurveAxis::Bytes, 10, 1.0 / 65536);
  model.variants.front().communication.slowdown = 0.8;
  const auto found_at = [&](const PlanQuestion& asked) {
    auto found = models.find(asked);
    found.value().messages = planner::message_times(std::vector{model}, model.op);
    return found;
  };
  PlanQuestion asked = question(4096);
  asked.options = planner::PlanOptions{.require_significant_gain = false};
  const PlanRanges ranges = find_ranges(found_at, asked, 512).value();
  for (std::int64_t m = 512; m <= 4096; m += 89) {
    asked.op.m = m;
    const auto found = found_at(asked).value();
    const auto own = plan_with(found, asked).value();
    const auto plan = planner::plan_at(ranges, m).value();
    EXPECT_LE(predict_with(found, asked, plan.cut).value().makespan.us, own.makespan.us * 1.02) << m;
  }
}

TEST(FindModel, ALevelHoldsForMessagesOfEveryLength) {
  FoundModel found{.model = model_of(1024, 1)};
  const auto of_row = static_cast<double>(planner::traits_of(op_of(1024).kind).message_bytes_per_unit(op_of(1024)));
  const std::string variant = found.model.variants.front().variant.text();
  found.messages = {op_of(1024), {{variant, {{512 * of_row, 400.0}, {1024 * of_row, 500.0}}}}};
  const auto communication_us = [&](std::int64_t m) {
    const CostModel model = as_it_is_now(found, op_of(m));
    return model.variants.front().uncut_communication_us(op_of(m));
  };
  std::map<std::int64_t, double> profiled_us;
  for (const std::int64_t m : {300, 512, 700, 1024, 3000}) profiled_us[m] = communication_us(m);
  const planner::RunSpeed slower{.log_communication = std::log(3.0), .length = 1024};
  found.run_speeds = {60, slower};
  for (const auto& [m, us] : profiled_us) {
    const double factor = level_at(found, op_of(m)).communication;
    EXPECT_GT(factor, 1.5);
    EXPECT_NEAR(communication_us(m), factor * us, 1e-9 * us) << m;
  }
}

double width(const planner::Plan& plan) { return (plan.makespan.high_us - plan.makespan.low_us) / plan.makespan.us; }

TEST(FindModel, AnIntervalGrowsWithTheDistanceToTheBlocksThatWereMeasured) {
  FoundModel found{.model = model_of(1024, 1)};
  found.model.variants.front().compute.curve.valid_min_x = 512;
  found.model.variants.front().compute.curve.valid_max_x = 1024;
  const auto width_of = [&](std::int64_t rows) {
    return width(predict_with(found, question(rows), planner::uncut(op_of(rows))).value());
  };
  EXPECT_EQ(width_of(512), 0);
  EXPECT_EQ(width_of(1024), 0);
  EXPECT_NEAR(width_of(256), 2 * 0.03, 1e-9);
  EXPECT_NEAR(width_of(8192), 2 * 0.09, 1e-9);
}

TEST(FindModel, APlanTellsThatItsMachineWasSeenOnceOnly) {
  FoundModel found{.model = model_of(1024, 1)};
  EXPECT_THAT(plan_with(found, question(512)).value().makespan.reason, Not(HasSubstr("one session")));
  found.ratios.emplace();
  EXPECT_THAT(plan_with(found, question(512)).value().makespan.reason, HasSubstr("of one session"));
}

TEST(FindRanges, TakeMessagesOfEachLengthAsThatMAlone) {
  Models models;
  models.add(1024, 1);
  const auto of_row = static_cast<double>(planner::traits_of(op_of(1024).kind).message_bytes_per_unit(op_of(1024)));
  const auto found_at = [&](const PlanQuestion& asked) {
    auto found = models.find(asked);
    const planner::VariantCost& cost = found.value().model.variants.front();
    const auto times_of_curve = [&](double rows, double factor) {
      return planner::MessageTimes::Point{rows * of_row, factor * cost.communication.curve.time_us(rows * of_row)};
    };
    found.value().messages = {
        found.value().model.op,
        {{cost.variant.text(), {times_of_curve(128, 8), times_of_curve(1024, 1), times_of_curve(8192, 0.125)}}}};
    return found;
  };
  const PlanRanges ranges = find_ranges(found_at, question(8192), 72).value();
  ASSERT_TRUE(ranges.validate());
  EXPECT_EQ(ranges.planned_count, 8121);
  for (std::int64_t m = 72; m <= 8192; m += m % 7 + 1) {
    const auto found = found_at(question(m)).value();
    const auto own = plan_with(found, question(m)).value();
    const auto plan = planner::plan_at(ranges, m).value();
    const double us = plan.overlaps() ? predict_with(found, question(m), plan.cut).value().makespan.us
                                      : predict_uncut_with(found, plan.op, plan.variant).value().makespan.us;
    const double alike = m == 1024 ? 0 : 0.02; // messages of neighbouring m take nearly as long
    ASSERT_LE(us, own.makespan.us * (1 + planner::kRangeTolerance + alike) * (1 + 1e-9))
        << m << ": " << plan.cut.text();
  }
}

// A model of another n and k of a GPU has waves up to the m that it was found for. Beyond, its curve is a guess.
TEST(FindRanges, ATransferredModelReachesToTheEndOfTheRange) {
  std::ifstream file(MC2_SOURCE_DIR "/data/h200_x2/models/matmul_all_reduce_m1024_n4096_k7168.json");
  const CostModel model = store::decode_model(std::string(std::istreambuf_iterator<char>(file), {})).value();
  const auto asked = [&](std::int64_t m) {
    PlanQuestion one{.op = model.op, .machine = model.fingerprint};
    one.op.m = m;
    one.op.n = 5120;
    one.op.k = 6144;
    return one;
  };
  const PlanRanges ranges = find_ranges(ModelPlaces{.given = {model}}, asked(8192), 1024).value();
  for (const std::int64_t m : {1536, 2048, 3000, 4096, 5300, 6600, 8192}) {
    PlanQuestion one = asked(m);
    const auto plan = planner::plan_at(ranges, m).value();
    const auto own = plan_given(model, one).value();
    EXPECT_EQ(plan.is_cut(), own.is_cut()) << m;
    one.variant = plan.variant;
    const double us = predict_given(model, one, plan.cut).value().makespan.us;
    EXPECT_LE(us, own.makespan.us * 1.02) << m << ": " << plan.cut.text() << " instead of " << own.cut.text();
  }
}

TEST(FindOver, SaysHowFarEachAnswerHolds) {
  Models models;
  models.add(1024, 1);
  models.add(4096, 0.2);
  // Blocks of up to 64 rows are cut by columns, which takes a model of the same m; 1024 is nearer to 1500 than 4096 is.
  const std::vector<std::int64_t> all_m{4, 8, 512, 1024, 1500, 4096, 8192};
  const auto answers = find_over(models.finder(), question(1), all_m);
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  for (const AnswerOverM& answer : answers) {
    parts.emplace_back(answer.first_m, answer.last_m);
    for (const std::int64_t m : all_m) {
      if (m < answer.first_m || m > answer.last_m) continue;
      const auto alone = models.find(question(m));
      ASSERT_EQ(alone.ok(), answer.found.ok()) << m;
      EXPECT_TRUE(!alone || is_same_answer(alone.value(), answer.found.value())) << m;
    }
  }
  EXPECT_THAT(parts,
              ::testing::ElementsAre(std::pair(4, 4), std::pair(8, 8), std::pair(512, 1500), std::pair(4096, 8192)));
}

TEST(FindRanges, WhatCannotBeAsked) {
  Models models;
  EXPECT_EQ(find_ranges(models.finder(), question(2000), 1000).error().code, ErrorCode::NotFound);
  models.add(1024, 1);
  EXPECT_THAT(find_ranges(models.finder(), question(2000), 2001).error().text(), HasSubstr("range is 2001 to 2000"));
  PlanQuestion anchored = question(2000);
  anchored.time_lanes = [](const CostModel&) { return std::vector<planner::TimedLanes>(); };
  EXPECT_EQ(find_ranges(models.finder(), anchored, 1000).error().field, "anchor");
  const auto cancelled = [](const PlanQuestion&) -> Result<FoundModel> {
    return Error{ErrorCode::Cancelled, "", "stopped"};
  };
  EXPECT_EQ(find_ranges(cancelled, question(2000), 1000).error().code, ErrorCode::Cancelled);
}

} // namespace
} // namespace mc2::finder::find_ranges_test
