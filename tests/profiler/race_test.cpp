#include "mc2/profiler/race.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "mc2/planner/planner.hpp"
#include "support/invented_bench.hpp"

namespace mc2::profiler::race_test {
namespace {

using planner::Variant;
using test::invented_op;

const Variant kFew{"ring", {{"ctas", "4"}}};
const Variant kMany{"ring", {{"ctas", "8"}}};

/// The matmul takes 10 us + 1 us a row. The collective takes 20 us + 2 us a row with few CTAs, 20 us + 1 us with many.
class SteadyBench final : public test::InventedBench {
 public:
  SteadyBench() : InventedBench(invented_op(), {{kFew, {10, 1, 20, 2}}, {kMany, {10, 1, 20, 1}}}) {}
  int runs = 0;

 protected:
  double timed(double us) override {
    ++runs;
    return us;
  }
};

planner::Plan halves(const Variant& variant) {
  return planner::unpredicted_plan(invented_op(), {}, variant, planner::equal_blocks(invented_op(), 512)).value();
}

TEST(Race, RunsEachPlansVariantAgainstTheFastestSerial) {
  SteadyBench bench;
  const auto raced = race(bench, std::vector{halves(kFew), halves(kMany)}, {}, "race").value();
  EXPECT_EQ(raced.serial_variant, kMany);
  // Few CTAs: 522 + 2 * (20 + 2 * 512) = 2610 us. Many: 522 + 2 * 532 = 1586 us. Serial uses many: 1034 + 1044 us.
  EXPECT_DOUBLE_EQ(median(raced.contenders[0].fused_us), 2610);
  EXPECT_DOUBLE_EQ(median(raced.contenders[1].fused_us), 1586);
  EXPECT_DOUBLE_EQ(median(raced.contenders[0].serial_us), 2078);
  EXPECT_DOUBLE_EQ(median(raced.contenders[0].communication_us), 20 + 2 * 1024);
  EXPECT_DOUBLE_EQ(median(raced.contenders[1].communication_us), 20 + 1024);
  EXPECT_DOUBLE_EQ(median(raced.communication_us), 20 + 1024);
  // At best 1034 us could be hidden; 2078 - 1586 = 492 us are.
  EXPECT_NEAR(raced.overlap_efficiency(raced.contenders[1]).value, 492.0 / 1034, 1e-12);
}

TEST(Race, ASpentBudgetLeavesAsManyPairsAsAnIntervalNeeds) {
  SteadyBench bench;
  RaceSettings settings;
  settings.budget = std::chrono::milliseconds(0);
  const auto raced = race(bench, std::vector{halves(kFew)}, settings, "race").value();
  // The smallest and largest of 6 ratios enclose the median with a probability of 1 - 2 / 2^6 = 97 %, of 5 with 94 %.
  EXPECT_EQ(raced.contenders[0].fused_us.size(), 6U);
  // 3 rounds of both variants find the fastest serial. 6 rounds follow: a pair, and each lane of each variant alone.
  EXPECT_EQ(bench.runs, 3 * 2 + 6 * (2 + 2 * 2));
}

TEST(Race, OfSeveralCutsTakesAsManyPairsAsAllTheirIntervalsNeed) {
  SteadyBench bench;
  RaceSettings settings;
  settings.budget = std::chrono::milliseconds(0);
  // With 1.25 % for each of four, 1 - 2 / 2^8 = 99.2 % is enough, and 1 - 2 / 2^7 = 98.4 % is not.
  const auto raced = race(bench, std::vector(4, halves(kFew)), settings, "race").value();
  EXPECT_EQ(raced.round_count, 8);
  settings.take_rounds(3);
  EXPECT_EQ(race(bench, std::vector(4, halves(kFew)), settings, "race").value().round_count, 8);
  EXPECT_EQ(race(bench, std::vector{halves(kFew)}, settings, "race").value().round_count, 6);
  settings.proves = false;
  EXPECT_EQ(race(bench, std::vector(4, halves(kFew)), settings, "race").value().round_count, 3);
}

/// Every run takes 1 ms, with a log-normal noise of 5 %.
class NoisyBench final : public test::InventedBench {
 public:
  NoisyBench() : InventedBench(invented_op(), {{kMany, {}}}) {}
  double time_us(std::size_t, RunPart) override { return 1000 * std::exp(noise_(random_)); }

 private:
  std::mt19937_64 random_{1};
  std::normal_distribution<double> noise_{0, 0.05};
};

TEST(Race, OfManyCutsThatGainNothingSeldomKeepsOne) {
  NoisyBench bench;
  std::vector<planner::Plan> cuts;
  for (int rows = 64; rows <= 12 * 64; rows += 64)
    cuts.push_back(
        planner::unpredicted_plan(invented_op(), {}, kMany, planner::equal_blocks(invented_op(), rows)).value());
  RaceSettings settings;
  settings.times_parts = false;
  int kept = 0;
  constexpr int kRaces = 400;
  for (int i = 0; i < kRaces; ++i) kept += winner_of(std::vector{race(bench, cuts, settings, "race").value()}) >= 0;
  // 2.5 % by the intervals. With one of 95 % for each cut, 80 or more would be kept.
  EXPECT_LE(kept, kRaces / 20);
}

TEST(Race, WithoutPartsTimesPairsAlone) {
  SteadyBench bench;
  RaceSettings settings;
  settings.min_rounds = settings.max_rounds = 6;
  settings.times_parts = false;
  const auto raced = race(bench, std::vector{halves(kMany)}, settings, "race").value();
  EXPECT_EQ(raced.round_count, 6);
  EXPECT_TRUE(raced.compute_us.empty() && raced.contenders[0].compute_us.empty());
  // 8 rounds of both variants choose serial's variant. Then 2 pairs warm up, and 6 pairs count.
  EXPECT_EQ(bench.runs, 8 * 2 + (2 + 6) * 2);
}

TEST(Race, IsStoppedBetweenRuns) {
  SteadyBench bench;
  TuneHooks hooks;
  hooks.is_cancelled = [&] { return bench.runs > 30; };
  const auto raced = race(bench, std::vector{halves(kMany)}, {}, "race 1", hooks);
  ASSERT_FALSE(raced);
  EXPECT_EQ(raced.error().code, ErrorCode::Cancelled);
  EXPECT_EQ(raced.error().field, "race 1");
  EXPECT_LE(bench.runs, 36); // the parts of a round are timed together
}

TEST(Race, RefusesSettingsThatCannotBe) {
  SteadyBench bench;
  RaceSettings settings;
  settings.max_rounds = 3;
  EXPECT_EQ(race(bench, std::vector{halves(kFew)}, settings, "race").error().field, "max_rounds");
  EXPECT_EQ(race(bench, {}, {}, "race").error().field, "plans");
}

/// A race of one contender after `rounds` rounds. Its fused runs take 50 us, varied by a factor of 1 +- `spread`, where
/// serial takes 100 us.
Race raced(int rounds, double spread) {
  Race result;
  result.contenders.emplace_back();
  result.round_count = rounds;
  for (int i = 0; i < rounds; ++i) {
    result.contenders[0].serial_us.push_back(100);
    result.contenders[0].fused_us.push_back(50 * (1 + spread * (i % 3 - 1)));
  }
  return result;
}

TEST(Race, ExpectsRoundsUntilTheIntervalsAreNarrowOrTheBudgetEnds) {
  using std::chrono::milliseconds;
  const RaceSettings settings; // half-width 1 %, at most 61 rounds
  const auto missing = [&](const Race& race, int budget_left_ms) {
    return missing_rounds(race, settings, milliseconds(10), milliseconds(budget_left_ms));
  };
  EXPECT_EQ(missing(raced(4, 0), 60'000), 7);       // intervals are first looked at after 11 rounds
  EXPECT_EQ(missing(raced(4, 0), 55), 5);           // rounds of 10 ms each
  EXPECT_EQ(missing(raced(4, 0), -100), 2);         // 6 rounds run in any case
  EXPECT_EQ(missing(raced(12, 0.015), 60'000), 15); // 1.5 % wide after 12: needs 12 * 1.5^2 = 27
  EXPECT_EQ(missing(raced(12, 0.1), 60'000), 49);
  EXPECT_EQ(missing(raced(12, 0.1), 200), 20);
}

/// A race of 11 rounds with one contender per ratio, whose fused runs take that share of serial's time, +- 0.1 %.
Race of_ratios(const std::vector<double>& ratios) {
  Race result;
  for (const double ratio : ratios) {
    Contender& contender = result.contenders.emplace_back();
    for (int i = 0; i < 11; ++i) {
      contender.serial_us.push_back(100);
      contender.fused_us.push_back(100 * ratio * (1 + 0.001 * (i % 3 - 1)));
    }
  }
  return result;
}

TEST(WinnerOf, IsTheFastestBeyondNoiseOrNobody) {
  EXPECT_EQ(winner_of(std::vector{of_ratios({0.9, 0.8, 0.85})}), 1);
  EXPECT_EQ(winner_of(std::vector{of_ratios({1.1, 1.0})}), -1);
  auto race = of_ratios({0.9, 0.8});
  race.contenders[1].is_serial = true; // its runs are serial's: it seems faster by chance
  EXPECT_EQ(winner_of(std::vector{race}), 0);
}

TEST(WinnerOf, DoesNotLoseInAnotherRaceAndIsJudgedByItsWorst) {
  // The second contender is fastest in the first race, but slower than serial, or than the first, in the other.
  EXPECT_EQ(winner_of(std::vector{of_ratios({0.9, 0.7}), of_ratios({0.95, 1.1})}), 0);
  EXPECT_EQ(winner_of(std::vector{of_ratios({0.9, 0.7}), of_ratios({0.92, 0.95})}), 0);
  // A contender that is level with serial in another race has not lost it.
  EXPECT_EQ(winner_of(std::vector{of_ratios({0.7}), of_ratios({1.0})}), 0);
}

} // namespace
} // namespace mc2::profiler::race_test
