#include "mc2/profiler/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::profiler::sweep_test {
namespace {

using planner::Component;
using planner::Context;
using planner::Sample;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// A machine whose clock advances only during measurements.
class FakeMachine {
 public:
  /// The time of one measurement of a case; by default always 1 us per row.
  std::function<double(std::int64_t rows, int measurement)> time_us = [](std::int64_t rows, int) {
    return static_cast<double>(rows);
  };
  std::vector<std::int64_t> measured; ///< the rows of each measurement, in order
  bool is_cancelled = false;
  std::vector<Progress> progress;
  std::vector<std::vector<Sample>> handed_over;

  [[nodiscard]] SweepCase matmul(std::int64_t rows) {
    return {"matmul " + std::to_string(rows), [this, rows] { return std::vector{time(rows, Component::Matmul)}; },
            [rows](const Sample& sample) {
              return sample.block_rows == rows && sample.component == Component::Matmul &&
                     sample.context == Context::Alone;
            }};
  }

  [[nodiscard]] SweepCase co_run(std::int64_t rows) {
    return {"co-run " + std::to_string(rows),
            [this, rows] {
              std::vector samples{time(rows, Component::Matmul), time(rows, Component::Collective)};
              for (Sample& sample : samples) sample.context = Context::CoRun;
              return samples;
            },
            [rows](const Sample& sample) { return sample.block_rows == rows && sample.context == Context::CoRun; }};
  }

  [[nodiscard]] std::vector<SweepCase> matmuls(const std::vector<std::int64_t>& rows) {
    std::vector<SweepCase> cases;
    for (const std::int64_t length : rows) cases.push_back(matmul(length));
    return cases;
  }

  [[nodiscard]] SweepHooks hooks() {
    return {[this] { return now_; }, [this](const Progress& report) { progress.push_back(report); },
            [this](std::span<const Sample> samples) { handed_over.emplace_back(samples.begin(), samples.end()); },
            [this] { return is_cancelled; }};
  }

 private:
  Sample time(std::int64_t rows, Component component) {
    measured.push_back(rows);
    const double us = time_us(rows, static_cast<int>(measured.size()) - 1);
    now_ += std::chrono::nanoseconds(std::llround(us * 1000));
    Sample sample;
    sample.component = component;
    sample.variant = "direct";
    sample.block_rows = rows;
    sample.message_bytes = component == Component::Collective ? rows : 0;
    sample.time = std::chrono::nanoseconds(std::llround(us * 1000));
    return sample;
  }

  std::chrono::steady_clock::time_point now_;
};

SweepOptions short_options() {
  SweepOptions options;
  options.warmup_rounds = 0;
  options.stopping = {.min_count = 3, .max_count = 6};
  return options;
}

SweepSummary sweep(FakeMachine& machine, const std::vector<SweepCase>& cases, const SweepOptions& options,
                   const std::vector<Sample>& earlier = {}) {
  const auto summary = run_sweep(cases, options, machine.hooks(), earlier);
  EXPECT_TRUE(summary.ok()) << summary.error().text();
  return summary.value();
}

TEST(Sweep, TimesEveryCaseUntilItIsSettled) {
  FakeMachine machine;
  const SweepSummary summary = sweep(machine, machine.matmuls({100, 200, 300}), short_options());
  EXPECT_EQ(summary.round_count, 3);
  EXPECT_EQ(summary.samples.size(), 9u); // 3 cases in the minimum of 3 rounds: times are constant
  EXPECT_EQ(summary.termination, "every size settled");
  ASSERT_EQ(summary.cases.size(), 3u);
  EXPECT_EQ(summary.cases[1].name, "matmul 200");
  EXPECT_EQ(summary.cases[1].sample_count, 3);
  EXPECT_EQ(summary.cases[1].median_us, 200);
  EXPECT_EQ(summary.cases[1].p95_us, 200);
  EXPECT_EQ(summary.cases[1].low_quantile_us, 200);
  EXPECT_EQ(summary.cases[1].noise_ratio, 0);
  EXPECT_EQ(summary.cases[1].stop_reason, "interval 0.00 % after 3 samples");
}

TEST(Sweep, RecordsEachCaseOncePerRound) {
  FakeMachine machine;
  const SweepSummary summary = sweep(machine, machine.matmuls({100, 200, 300}), short_options());
  std::map<std::pair<int, std::int64_t>, int> counts;
  for (const Sample& sample : summary.samples) ++counts[{sample.round, sample.block_rows}];
  EXPECT_EQ(counts.size(), 9u);
}

TEST(Sweep, DoesNotRecordWarmUp) {
  FakeMachine machine;
  machine.time_us = [](std::int64_t rows, int measurement) {
    return measurement < 4 ? 1e4 : static_cast<double>(rows);
  };
  SweepOptions options = short_options();
  options.warmup_rounds = 2;
  const SweepSummary summary = sweep(machine, machine.matmuls({100, 200}), options);
  EXPECT_EQ(machine.measured.size(), 4u + 6u);
  EXPECT_EQ(summary.samples.size(), 6u);
  EXPECT_EQ(summary.cases[0].p95_us, 100);
}

TEST(Sweep, ShufflesEveryRoundByTheSeedAlone) {
  const std::vector<std::int64_t> rows{1, 2, 3, 4, 5, 6, 7, 8};
  const auto order = [&](std::uint64_t seed) {
    FakeMachine machine;
    SweepOptions options = short_options();
    options.seed = seed;
    sweep(machine, machine.matmuls(rows), options);
    return machine.measured;
  };
  const std::vector<std::int64_t> first = order(1);
  EXPECT_EQ(first, order(1));
  EXPECT_NE(first, order(2));
  const std::vector<std::int64_t> round0(first.begin(), first.begin() + 8);
  const std::vector<std::int64_t> round1(first.begin() + 8, first.begin() + 16);
  EXPECT_THAT(round0, ::testing::UnorderedElementsAreArray(rows));
  EXPECT_THAT(round1, ::testing::UnorderedElementsAreArray(rows));
  EXPECT_NE(round0, round1);
}

TEST(Sweep, EveryPlaceInARoundFallsToEveryCase) {
  // In 300 rounds of 3 cases each case is first about 100 times (standard deviation sqrt(300 * 1/3 * 2/3) = 8.2).
  FakeMachine machine;
  SweepOptions options = short_options();
  options.stopping = {.min_count = 300, .max_count = 300};
  sweep(machine, machine.matmuls({1, 2, 3}), options);
  std::map<std::int64_t, int> first_count;
  for (std::size_t i = 0; i < machine.measured.size(); i += 3) ++first_count[machine.measured[i]];
  for (const auto& [rows, count] : first_count) EXPECT_NEAR(count, 100, 33);
}

TEST(Sweep, StopsAtTheMaximumOfANoisyCase) {
  FakeMachine machine;
  machine.time_us = [](std::int64_t rows, int measurement) {
    return static_cast<double>(rows * (1 + measurement % 2));
  };
  const SweepSummary summary = sweep(machine, machine.matmuls({100}), short_options());
  EXPECT_EQ(summary.round_count, 6);
  EXPECT_EQ(summary.termination, "every size settled or has 6 samples or more, the maximum (1 not settled)");
}

TEST(Sweep, SettledCasesDropOutSaveForReferences) {
  // Case 1000 never settles. The six others settle after 3 rounds; the four cheapest of them stay as references.
  FakeMachine machine;
  machine.time_us = [](std::int64_t rows, int measurement) {
    return rows == 1000 ? (measurement % 3 == 0 ? 4000.0 : 1000.0) : static_cast<double>(rows);
  };
  SweepOptions options = short_options();
  options.stopping.relative_half_width = 0.001;
  const std::vector<std::int64_t> rows{100, 200, 300, 400, 500, 600, 1000};
  const SweepSummary summary = sweep(machine, machine.matmuls(rows), options);
  const auto count = [&](std::size_t index) { return summary.cases[index].sample_count; };
  EXPECT_EQ(count(6), summary.round_count);
  ASSERT_GT(summary.round_count, 3);
  for (const std::size_t reference : {0, 1, 2, 3}) EXPECT_EQ(count(reference), summary.round_count);
  for (const std::size_t dropped : {4, 5}) EXPECT_EQ(count(dropped), 3);
}

TEST(Sweep, SettlesUnderDriftThatAllCasesShare) {
  // Each round is slower than the one before for all six cases. Raw times never settle; times divided by the round's
  // factor do.
  FakeMachine machine;
  machine.time_us = [](std::int64_t rows, int measurement) {
    return static_cast<double>(rows) * std::pow(1.1, measurement / 6);
  };
  const SweepSummary summary = sweep(machine, machine.matmuls({10, 20, 30, 40, 50, 60}), short_options());
  EXPECT_EQ(summary.round_count, 3);
  EXPECT_EQ(summary.termination, "every size settled");
}

TEST(Sweep, StartsNoRoundAfterTheBudget) {
  // A round takes 300 us, and the rule alone would go on beyond the budget of 1 ms: rounds start at 0, 300, 600 and 900
  // us.
  FakeMachine machine;
  SweepOptions options = short_options();
  options.budget = milliseconds(1);
  options.stopping = {.min_count = 100, .max_count = 100};
  const SweepSummary summary = sweep(machine, machine.matmuls({100, 200}), options);
  EXPECT_EQ(summary.round_count, 4);
  EXPECT_EQ(summary.termination, "time budget spent with 2 of 2 sizes unsettled");
}

TEST(Sweep, RunsOneRoundEvenWithoutBudget) {
  FakeMachine machine;
  SweepOptions options = short_options();
  options.warmup_rounds = 5;
  options.budget = milliseconds(0);
  const SweepSummary summary = sweep(machine, machine.matmuls({100, 200}), options);
  EXPECT_EQ(summary.round_count, 1);
  EXPECT_EQ(machine.measured.size(), 2u); // no warm-up: it would also cost budget
}

TEST(Sweep, OfFewMeasurementsTakesTheFirstCases) {
  FakeMachine machine;
  const auto cases = machine.matmuls({400, 100, 200, 300});
  SweepOptions options;
  options.warmup_rounds = 0;
  options.max_measurement_count = 6;
  const auto summary = run_sweep(cases, options, machine.hooks(), {}).value();
  EXPECT_EQ(machine.measured, (std::vector<std::int64_t>{400, 100, 200, 300, 400, 100}));
  EXPECT_EQ(summary.measurement_count, 6);
  EXPECT_THAT(summary.termination, HasSubstr("all measurements used"));
  EXPECT_EQ(run_sweep(cases, options, machine.hooks(), summary.samples).value().samples, summary.samples);
}

TEST(Sweep, EndsAfterItsRounds) {
  FakeMachine machine;
  SweepOptions options;
  options.max_round_count = 2;
  EXPECT_EQ(run_sweep(machine.matmuls({100, 200}), options, machine.hooks(), {}).value().round_count, 2);
}

TEST(Sweep, MarksOutliersPerCaseAndLane) {
  FakeMachine machine;
  machine.time_us = [](std::int64_t rows, int measurement) {
    return static_cast<double>(rows) * (measurement == 9 ? 5.0 : 1.0); // the co-run's collective in the 5th round
  };
  SweepOptions options = short_options();
  options.stopping = {.min_count = 8, .max_count = 8};
  const std::vector<SweepCase> cases{machine.co_run(100)};
  const SweepSummary summary = sweep(machine, cases, options);
  ASSERT_EQ(summary.samples.size(), 16u);
  for (std::size_t i = 0; i < summary.samples.size(); ++i) EXPECT_EQ(summary.samples[i].is_outlier, i == 9) << i;
  EXPECT_EQ(summary.cases[0].sample_count, 8); // the summary counts only the first lane
  EXPECT_EQ(summary.cases[0].outlier_count, 0);
}

TEST(Sweep, CountsOutliersAndLeavesThemOutOfTheNoise) {
  FakeMachine machine;
  machine.time_us = [](std::int64_t, int measurement) { return measurement == 2 ? 500.0 : 100.0; };
  SweepOptions options = short_options();
  options.stopping = {.min_count = 8, .max_count = 8};
  const SweepSummary summary = sweep(machine, machine.matmuls({100}), options);
  EXPECT_EQ(summary.cases[0].outlier_count, 1);
  EXPECT_EQ(summary.cases[0].noise_ratio, 0);
  EXPECT_GT(summary.cases[0].p95_us, 300); // position 0.95 * 7 = 6.65, between 100 and 500, is 360
}

TEST(Sweep, ResumesWhereItWasInterrupted) {
  FakeMachine machine;
  const std::vector<SweepCase> cases = machine.matmuls({100, 200, 300});
  std::vector<Sample> earlier;
  for (int round = 0; round < 2; ++round) {
    for (const SweepCase& sweep_case : cases) {
      earlier.push_back(sweep_case.measure().front());
      earlier.back().round = round;
    }
  }
  machine.measured.clear();
  const SweepSummary summary = sweep(machine, cases, short_options(), earlier);
  EXPECT_EQ(summary.round_count, 1); // two earlier rounds count towards the minimum of 3
  EXPECT_EQ(machine.measured.size(), 3u);
  ASSERT_EQ(summary.samples.size(), 9u);
  EXPECT_TRUE(std::equal(earlier.begin(), earlier.end(), summary.samples.begin()));
  EXPECT_EQ(summary.samples.back().round, 2);
}

TEST(Sweep, DoesNothingWhenAllWasDoneEarlier) {
  FakeMachine machine;
  const std::vector<SweepCase> cases = machine.matmuls({100, 200});
  const SweepSummary complete = sweep(machine, cases, short_options());
  machine.measured.clear();
  SweepOptions options = short_options();
  options.warmup_rounds = 2;
  const SweepSummary again = sweep(machine, cases, options, complete.samples);
  EXPECT_TRUE(machine.measured.empty());
  EXPECT_EQ(again.samples, complete.samples);
  EXPECT_EQ(again.cases[0].stop_reason, "interval 0.00 % after 3 samples");
}

TEST(Sweep, KeepsEarlierSamplesThatNoCaseOwns) {
  FakeMachine machine;
  Sample foreign;
  foreign.block_rows = 999;
  foreign.is_outlier = true;
  foreign.time = std::chrono::microseconds(1);
  const SweepSummary summary = sweep(machine, machine.matmuls({100}), short_options(), {foreign});
  EXPECT_EQ(summary.samples.front(), foreign);
}

TEST(Sweep, CountsOneIterationOfAResumedCoRun) {
  FakeMachine machine;
  const std::vector<SweepCase> cases{machine.co_run(100)};
  const SweepSummary complete = sweep(machine, cases, short_options());
  EXPECT_EQ(complete.samples.size(), 6u);
  const SweepSummary again = sweep(machine, cases, short_options(), complete.samples);
  EXPECT_EQ(again.cases[0].sample_count, 3);
}

TEST(Sweep, HandsOverTheSamplesOfEachRound) {
  FakeMachine machine;
  sweep(machine, machine.matmuls({100, 200}), short_options());
  ASSERT_EQ(machine.handed_over.size(), 3u);
  for (std::size_t round = 0; round < 3; ++round) {
    ASSERT_EQ(machine.handed_over[round].size(), 2u);
    EXPECT_EQ(machine.handed_over[round][0].round, static_cast<int>(round));
  }
}

TEST(Sweep, CancelHandsOverEverythingFirst) {
  FakeMachine machine;
  machine.time_us = [&machine](std::int64_t rows, int measurement) {
    machine.is_cancelled = measurement == 3; // the first measurement of the second round
    return static_cast<double>(rows);
  };
  const auto summary = run_sweep(machine.matmuls({100, 200, 300}), short_options(), machine.hooks(), {});
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().code, ErrorCode::Cancelled);
  EXPECT_THAT(summary.error().message, HasSubstr("in round 2"));
  ASSERT_EQ(machine.handed_over.size(), 2u);
  EXPECT_EQ(machine.handed_over[0].size(), 3u);
  EXPECT_EQ(machine.handed_over[1].size(), 1u);
}

TEST(Sweep, CancelDuringWarmUpHandsOverNothing) {
  FakeMachine machine;
  machine.is_cancelled = true;
  SweepOptions options = short_options();
  options.warmup_rounds = 1;
  const auto summary = run_sweep(machine.matmuls({100}), options, machine.hooks(), {});
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().code, ErrorCode::Cancelled);
  EXPECT_TRUE(machine.handed_over.empty());
}

TEST(Sweep, LetsExceptionsPassAfterHandingOver) {
  FakeMachine machine;
  machine.time_us = [](std::int64_t rows, int measurement) {
    if (measurement == 4) throw std::runtime_error("device lost");
    return static_cast<double>(rows);
  };
  EXPECT_THROW(static_cast<void>(run_sweep(machine.matmuls({100, 200, 300}), short_options(), machine.hooks(), {})),
               std::runtime_error);
  ASSERT_EQ(machine.handed_over.size(), 2u);
  EXPECT_EQ(machine.handed_over[1].size(), 1u);
}

TEST(Sweep, ReportsProgressThatNeverGoesBack) {
  FakeMachine machine;
  SweepOptions options = short_options();
  options.warmup_rounds = 1;
  sweep(machine, machine.matmuls({100'000, 200'000}), options);
  ASSERT_EQ(machine.progress.size(), 2u + 6u);
  for (std::size_t i = 1; i < machine.progress.size(); ++i)
    EXPECT_GE(machine.progress[i].fraction, machine.progress[i - 1].fraction);
  // The other case has not run yet. The estimate is 3 rounds of two cases like the first, not the whole budget.
  const double seventh = machine.progress[0].fraction; // one visit is done, six are left
  EXPECT_NEAR(seventh, 1.0 / 7, 1e-9);
  // After warm-up every cost is known: of 1200 ms in all, 3 rounds of 300 ms remain.
  EXPECT_EQ(machine.progress[1].remaining, milliseconds(900));
  EXPECT_DOUBLE_EQ(machine.progress[1].fraction, 0.25);
  EXPECT_EQ(machine.progress.back().remaining, milliseconds(0));
  EXPECT_DOUBLE_EQ(machine.progress.back().fraction, 1);
  EXPECT_EQ(machine.progress.back().detail, "0 of 2 cases settled"); // three rounds settle none
}

TEST(Sweep, WorksWithoutOptionalHooks) {
  FakeMachine machine;
  SweepHooks hooks;
  hooks.now = machine.hooks().now;
  EXPECT_TRUE(run_sweep(machine.matmuls({100}), short_options(), hooks, {}).ok());
}

void expect_invalid(const std::vector<SweepCase>& cases, const SweepOptions& options, const SweepHooks& hooks,
                    const std::string& field) {
  const auto summary = run_sweep(cases, options, hooks, {});
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().code, ErrorCode::InvalidSpec);
  EXPECT_EQ(summary.error().field, field);
}

TEST(SweepRefuses, NoCases) {
  FakeMachine machine;
  expect_invalid({}, short_options(), machine.hooks(), "cases");
}

TEST(SweepRefuses, ACaseWithoutCallables) {
  FakeMachine machine;
  std::vector<SweepCase> cases = machine.matmuls({100, 200});
  cases[1].measure = nullptr;
  expect_invalid(cases, short_options(), machine.hooks(), "cases[1]");
  cases = machine.matmuls({100});
  cases[0].owns = nullptr;
  expect_invalid(cases, short_options(), machine.hooks(), "cases[0]");
}

TEST(SweepRefuses, NoClock) {
  FakeMachine machine;
  expect_invalid(machine.matmuls({100}), short_options(), {}, "hooks.now");
}

TEST(SweepRefuses, IllegalOptions) {
  FakeMachine machine;
  const std::vector<SweepCase> cases = machine.matmuls({100});
  SweepOptions options = short_options();
  options.warmup_rounds = -1;
  expect_invalid(cases, options, machine.hooks(), "warmup_rounds");
  options = short_options();
  options.budget = milliseconds(-1);
  expect_invalid(cases, options, machine.hooks(), "budget");
  options = short_options();
  options.stopping.max_count = 0;
  expect_invalid(cases, options, machine.hooks(), "stopping.max_count");
}

} // namespace
} // namespace mc2::profiler::sweep_test
