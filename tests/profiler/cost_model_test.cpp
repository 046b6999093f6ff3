#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mc2/planner/profile.hpp"
#include "mc2/profiler/fit.hpp"

namespace mc2::profiler::cost_model_test {
namespace {

using planner::Component;
using planner::Context;
using planner::Profile;
using planner::Sample;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kBytesPerRow = 4096;
const std::vector<std::int64_t> kRows{128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096};

double compute_us(std::int64_t rows) { return 40 + 0.5 * static_cast<double>(rows); }
double communication_us(std::int64_t rows) { return 90 + 0.3 * static_cast<double>(rows); }

planner::OpSpec example_op() {
  planner::OpSpec op;
  op.m = 4096;
  op.n = 1024;
  op.k = 512;
  op.world_size = 2;
  return op;
}

Sample make_sample(Component component, Context context, std::int64_t rows, double time_us, int round) {
  Sample sample;
  sample.component = component;
  sample.context = context;
  sample.variant = "direct";
  sample.block_rows = rows;
  sample.message_bytes = component == Component::Collective ? rows * kBytesPerRow : 0;
  sample.time = std::chrono::nanoseconds(std::llround(time_us * 1000));
  sample.round = round;
  return sample;
}

/// Every size of both components, timed alone without noise.
Profile clean_profile(int round_count = 5) {
  Profile profile;
  profile.op = example_op();
  profile.fingerprint.fields["cpu_model"] = "invented";
  for (int round = 0; round < round_count; ++round) {
    for (const std::int64_t rows : kRows) {
      profile.samples.push_back(make_sample(Component::Matmul, Context::Alone, rows, compute_us(rows), round));
      profile.samples.push_back(
          make_sample(Component::Collective, Context::Alone, rows, communication_us(rows), round));
    }
  }
  return profile;
}

FitSummary fit(const Profile& profile) {
  const auto summary = fit_cost_model(profile);
  EXPECT_TRUE(summary.ok()) << summary.error().text();
  return summary.value();
}

TEST(FitCostModel, FindsBothCurvesOfACleanProfile) {
  const FitSummary summary = fit(clean_profile());
  ASSERT_EQ(summary.model.variants.size(), 1u);
  const planner::VariantCost& cost = summary.model.variants[0];
  EXPECT_EQ(cost.variant.name, "direct");
  EXPECT_EQ(cost.compute.curve.axis, planner::CurveAxis::Rows);
  EXPECT_EQ(cost.communication.curve.axis, planner::CurveAxis::Bytes);
  EXPECT_NEAR(cost.compute.curve.time_us(700), 40 + 0.5 * 700, 0.1);
  EXPECT_NEAR(cost.communication.curve.time_us(700 * kBytesPerRow), 90 + 0.3 * 700, 0.1);
  EXPECT_EQ(cost.compute.fixed_us, 0);
  EXPECT_EQ(summary.model.op, example_op());
  EXPECT_EQ(summary.model.fingerprint.fields.at("cpu_model"), "invented");
  EXPECT_EQ(summary.model.source, "profile of 120 samples in 5 rounds");
}

TEST(FitCostModel, FindsWhatARunTakesBesidesItsBlocks) {
  Profile profile = clean_profile(21);
  EXPECT_EQ(fit(profile).model.variants[0].overhead_us(), 0); // nothing tells it
  for (Sample& sample : profile.samples) {
    const bool is_matmul = sample.component == Component::Matmul;
    // Samples of an earlier session tell nothing of it, and do not count as 0.
    if (sample.round >= 10) sample.start = std::chrono::microseconds((is_matmul ? 20 : 30) + sample.round - 10);
  }
  const FitSummary told = fit(profile);
  const planner::VariantCost& cost = told.model.variants[0];
  EXPECT_NEAR(cost.compute.start_us, 22, 0.01); // the quantile 0.2 of 20 to 30 us, as of the curves' times
  EXPECT_NEAR(cost.communication.start_us, 32, 0.01);
  EXPECT_NEAR(cost.compute.start_interval, 4.5 / 22, 0.05); // 90 % lie within 9 us
  EXPECT_NEAR(cost.compute.curve.time_us(700), 40 + 0.5 * 700, 0.1);
}

TEST(FitCostModel, AssumesNoSlowdownWithoutCoRuns) {
  const FitSummary summary = fit(clean_profile());
  EXPECT_EQ(summary.model.variants[0].compute.slowdown, 1);
  EXPECT_EQ(summary.model.variants[0].communication.slowdown, 1);
  EXPECT_THAT(summary.notes, Contains(HasSubstr("direct matmul: slow-down 1 assumed")));
}

TEST(FitCostModel, SlowdownIsTheMedianOfPairsOfOneRound) {
  // The machine's times double from round to round. Each ratio of a pair is 1.25; ratios of unpaired times are not.
  Profile profile = clean_profile(3);
  for (Sample& sample : profile.samples) sample.time *= 1 << sample.round;
  for (int round = 0; round < 3; ++round) {
    const double level = 1 << round;
    profile.samples.push_back(
        make_sample(Component::Matmul, Context::CoRun, 1024, 1.25 * level * compute_us(1024), round));
    profile.samples.push_back(
        make_sample(Component::Collective, Context::CoRun, 1024, 0.9 * level * communication_us(1024), round));
  }
  const FitSummary summary = fit(profile);
  EXPECT_NEAR(summary.model.variants[0].compute.slowdown, 1.25, 1e-4);
  EXPECT_EQ(summary.model.variants[0].communication.slowdown, 1); // 0.9 is noise: no lane gets faster beside another
  EXPECT_THAT(summary.notes, Contains(HasSubstr("direct matmul: slow-down 1.25")));
  EXPECT_THAT(summary.notes, Contains(HasSubstr("taken as 1")));
  EXPECT_THAT(summary.notes, Contains(HasSubstr("drifted by a factor of 4")));
}

TEST(FitCostModel, SessionsOfDifferentSpeedAreToldApart) {
  const auto fit_two = [](double slower) {
    Profile second = clean_profile(3);
    for (Sample& sample : second.samples)
      if (sample.component == Component::Matmul)
        sample.time = std::chrono::nanoseconds(std::llround(slower * static_cast<double>(sample.time.count())));
    Profile profile = clean_profile(4);
    profile.add_session(second.samples);
    EXPECT_EQ(profile.later_sessions, std::vector{4});
    return fit(profile);
  };
  const FitSummary summary = fit_two(1.3);
  EXPECT_THAT(summary.notes,
              Contains(HasSubstr("matmul: session 2 of 2 took 1.3 x the time of session 1: this machine")));
  EXPECT_THAT(summary.notes, Not(Contains(HasSubstr("collective: session"))));
  EXPECT_NEAR(summary.model.variants[0].compute.curve.time_us(700), 40 + 0.5 * 700, 0.5); // the faster session's curve
  EXPECT_THAT(fit_two(1.05).notes, Not(Contains(HasSubstr("session"))));
}

TEST(FitCostModel, ACollectiveThatIsSurelyFasterBesideTheMatmulHasAPartOfItsWorkDone) {
  Profile profile = clean_profile(3);
  for (int round = 0; round < 3; ++round)
    for (const Component component : {Component::Matmul, Component::Collective}) {
      const double alone_us = component == Component::Matmul ? compute_us(1024) : communication_us(1024);
      profile.samples.push_back(make_sample(component, Context::CoRun, 1024, 0.6 * alone_us, round));
    }
  const FitSummary summary = fit(profile);
  EXPECT_EQ(summary.model.variants[0].compute.slowdown, 1); // no collective takes over work of a matmul
  EXPECT_NEAR(summary.model.variants[0].communication.slowdown, 0.6, 1e-4);
  EXPECT_THAT(summary.notes, Contains(HasSubstr("the other lane does a part of its work")));
}

TEST(FitCostModel, IgnoresCoRunsOfOtherRoundsAndSizes) {
  Profile profile = clean_profile(2);
  profile.samples.push_back(make_sample(Component::Matmul, Context::CoRun, 1024, 1e6, 7));
  profile.samples.push_back(make_sample(Component::Matmul, Context::CoRun, 999, 1e6, 0));
  EXPECT_EQ(fit(profile).model.variants[0].compute.slowdown, 1);
}

TEST(FitCostModel, LeavesMarkedOutliersOutAndSaysSo) {
  Profile profile = clean_profile(3);
  for (int i = 0; i < 9; ++i) {
    Sample sample = make_sample(Component::Matmul, Context::Alone, 1024, 1.0, 0);
    sample.is_outlier = true;
    profile.samples.push_back(sample);
  }
  const FitSummary summary = fit(profile);
  EXPECT_NEAR(summary.model.variants[0].compute.curve.time_us(1024), compute_us(1024), 0.1);
  EXPECT_THAT(summary.notes, Contains("direct matmul: 9 samples left out as outliers"));
}

TEST(FitCostModel, NotesSizesWithFewSamples) {
  Profile profile = clean_profile(3);
  profile.samples.push_back(make_sample(Component::Matmul, Context::Alone, 3500, compute_us(3500), 0));
  EXPECT_THAT(fit(profile).notes, Contains("direct matmul: size 3500 has only 1 sample"));
}

TEST(FitCostModel, FitsEveryVariant) {
  Profile profile = clean_profile(3);
  for (const Sample& sample : clean_profile(3).samples) {
    profile.samples.push_back(sample);
    profile.samples.back().variant = "ring";
    profile.samples.back().time *= 2;
  }
  const FitSummary summary = fit(profile);
  ASSERT_EQ(summary.model.variants.size(), 2u);
  EXPECT_EQ(summary.model.variants[1].variant.name, "ring");
  EXPECT_NEAR(summary.model.variants[1].compute.curve.time_us(1000), 2 * compute_us(1000), 0.5);
}

/// Half of (largest / smallest ratio of fitted to true time) - 1: the error of the shape, whatever the common scale.
double shape_error(const planner::CostCurve& curve, double (*truth)(std::int64_t), double x_per_row) {
  double low = 1e300;
  double high = 0;
  for (std::int64_t rows = kRows.front(); rows <= kRows.back(); rows += 32) {
    const double ratio = curve.time_us(static_cast<double>(rows) * x_per_row) / truth(rows);
    low = std::min(low, ratio);
    high = std::max(high, ratio);
  }
  return (high / low - 1) / 2;
}

/// A machine that slows down by 1.65x and recovers, every 18 rounds. Samples have 10 % noise, and about one in 20 is
/// interrupted (3x). After 12 rounds, in a slow phase, four sizes of each component have settled and are not timed
/// again; the others go on.
Profile drifting_profile(unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.1);
  std::uniform_real_distribution<double> chance(0, 1);
  Profile profile;
  profile.op = example_op();
  for (int round = 0; round < 40; ++round) {
    const double drift = std::pow(1.65, 0.5 - 0.5 * std::cos(2 * std::numbers::pi * round / 18));
    for (std::size_t i = 0; i < kRows.size(); ++i) {
      if (round >= 12 && i >= 2 && i < 6) continue;
      for (const Component component : {Component::Matmul, Component::Collective}) {
        const double truth = component == Component::Matmul ? compute_us(kRows[i]) : communication_us(kRows[i]);
        const double interruption = chance(random) < 0.05 ? 3.0 : 1.0;
        const double time_us = truth * drift * std::exp(noise(random)) * interruption;
        profile.samples.push_back(make_sample(component, Context::Alone, kRows[i], time_us, round));
      }
    }
  }
  return profile;
}

TEST(FitCostModel, SeesThroughDriftNoiseAndInterruptions) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const FitSummary summary = fit(drifting_profile(seed));
    const planner::VariantCost& cost = summary.model.variants[0];
    EXPECT_LT(shape_error(cost.compute.curve, compute_us, 1), 0.03) << "seed " << seed;
    EXPECT_LT(shape_error(cost.communication.curve, communication_us, kBytesPerRow), 0.03) << "seed " << seed;
  }
}

void expect_refusal(const Profile& profile, ErrorCode code, const std::string& text) {
  const auto summary = fit_cost_model(profile);
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().code, code);
  EXPECT_THAT(summary.error().text(), HasSubstr(text));
}

TEST(FitCostModelRefuses, AnIllegalOperator) {
  Profile profile = clean_profile();
  profile.op.m = 0;
  expect_refusal(profile, ErrorCode::InvalidSpec, "m");
}

TEST(FitCostModelRefuses, IllegalOptions) {
  const auto summary = fit_cost_model(clean_profile(), {.quantile = 2});
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().code, ErrorCode::InvalidSpec);
}

TEST(FitCostModel, MeetsTheOnlySizesOfAnOperatorOfTwoRows) {
  Profile profile = clean_profile(0);
  profile.op.kind = planner::OpKind::MatmulReduceScatter;
  profile.op.m = 2 * profile.op.world_size;
  for (int round = 0; round < 5; ++round)
    for (const std::int64_t rows : {1, 2}) {
      profile.samples.push_back(make_sample(Component::Matmul, Context::Alone, rows, compute_us(rows), round));
      profile.samples.push_back(
          make_sample(Component::Collective, Context::Alone, rows, communication_us(rows), round));
    }
  const auto fitted = fit_cost_model(profile);
  ASSERT_TRUE(fitted) << fitted.error().text();
  const auto& cost = fitted.value().model.variants.front();
  EXPECT_NEAR(cost.compute.curve.time_us(1), 40.5, 1e-9);
  EXPECT_NEAR(cost.compute.curve.time_us(2), 41, 1e-9);
  EXPECT_NEAR(cost.communication.curve.time_us(2 * kBytesPerRow), 90.6, 1e-9);
}

TEST(FitCostModel, IsProportionalForAnOperatorOfOneRow) {
  Profile profile = clean_profile(0);
  profile.op.kind = planner::OpKind::MatmulReduceScatter;
  profile.op.m = profile.op.world_size;
  profile.samples = {make_sample(Component::Matmul, Context::Alone, 1, 40, 0),
                     make_sample(Component::Collective, Context::Alone, 1, 90, 0)};
  const auto fitted = fit_cost_model(profile);
  ASSERT_TRUE(fitted) << fitted.error().text();
  EXPECT_NEAR(fitted.value().model.variants.front().compute.curve.time_us(1), 40, 1e-9);
  EXPECT_NEAR(fitted.value().model.variants.front().compute.curve.time_us(3), 120, 1e-9);
}

TEST(FitCostModel, CountsColumnsWhereTheyAreCutAndMeetsTheOnlyLengthOfABackendThatDoesNotCutThem) {
  Profile profile = clean_profile();
  profile.op.m = 16;
  EXPECT_EQ(fit_cost_model(profile).value().model.variants.front().compute.curve.axis, planner::CurveAxis::Columns);
  profile.op.n = 300;
  profile.samples = {make_sample(Component::Matmul, Context::Alone, 300, 40, 0),
                     make_sample(Component::Collective, Context::Alone, 300, 90, 0)};
  const auto fitted = fit_cost_model(profile);
  ASSERT_TRUE(fitted) << fitted.error().text();
  EXPECT_NEAR(fitted.value().model.variants.front().compute.curve.time_us(300), 40, 1e-9);
}

TEST(FitCostModelRefuses, AnEmptyProfile) {
  Profile profile = clean_profile();
  profile.samples.clear();
  expect_refusal(profile, ErrorCode::CannotFit, "no samples");
}

TEST(FitCostModelRefuses, AVariantWithoutOneComponent) {
  Profile profile = clean_profile();
  std::erase_if(profile.samples, [](const Sample& sample) { return sample.component == Component::Collective; });
  expect_refusal(profile, ErrorCode::CannotFit, "direct collective: there are no samples");
}

TEST(FitCostModelRefuses, TooFewSizes) {
  Profile profile = clean_profile();
  std::erase_if(profile.samples,
                [](const Sample& sample) { return sample.component == Component::Matmul && sample.block_rows > 256; });
  expect_refusal(profile, ErrorCode::CannotFit, "direct matmul: too few distinct sizes: 2");
}

TEST(FitCostModelRefuses, NonPositiveTimesAndSizes) {
  Profile profile = clean_profile();
  profile.samples[3].time = std::chrono::nanoseconds(0);
  expect_refusal(profile, ErrorCode::CannotFit, "direct collective: sample 3 has a time of 0 ns");
  profile = clean_profile();
  profile.samples[2].block_rows = -128;
  expect_refusal(profile, ErrorCode::CannotFit, "direct matmul: sample 2 has a size of -128");
}

TEST(FitCostModelRefuses, TimesThatFallWithSize) {
  Profile profile = clean_profile();
  for (Sample& sample : profile.samples) {
    if (sample.component == Component::Matmul)
      sample.time = std::chrono::nanoseconds(1'000'000'000 / sample.block_rows);
  }
  expect_refusal(profile, ErrorCode::CannotFit, "direct matmul: time falls with size");
}

} // namespace
} // namespace mc2::profiler::cost_model_test
