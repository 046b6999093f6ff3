#include "pages/comparison.hpp"

#include <gtest/gtest.h>

namespace mc2::cli::comparison_test {
namespace {

TEST(Comparison, NeedsTheIntervalToExcludeEquality) {
  // The ratio is 0.9 and both times are known to 5 %: ln 0.9 = -0.105 lies outside the half-width sqrt(2) ln 1.05 =
  // 0.069.
  EXPECT_EQ(compared_row("", {100, 100 / 1.05, 105}, {90, 90 / 1.05, 94.5}).verdict, Comparison::Better);
  EXPECT_EQ(compared_row("", {90, 90 / 1.05, 94.5}, {100, 100 / 1.05, 105}).verdict, Comparison::Worse);
  // Both times are known to 10 %: the half-width is sqrt(2) ln 1.1 = 0.135.
  EXPECT_EQ(compared_row("", {100, 100 / 1.1, 110}, {90, 90 / 1.1, 99}).verdict, Comparison::Indistinguishable);
}

planner::Profile profile_of(const std::vector<int>& times_us) {
  planner::Profile profile{{planner::OpKind::MatmulAllReduce, 1024, 512, 256, planner::DType::F32, 2}, {}, {}};
  for (const int us : times_us) {
    planner::Sample sample;
    sample.variant = "direct";
    sample.block_rows = 128;
    sample.time = std::chrono::microseconds(us);
    profile.samples.push_back(sample);
  }
  return profile;
}

TEST(Comparison, OfProfilesFollowsTheirNoise) {
  const auto verdict = [](const std::vector<int>& a, const std::vector<int>& b) {
    return compare_profiles(profile_of(a), profile_of(b)).value().at(0).verdict;
  };
  const std::vector<int> steady{100, 101, 100, 99, 100, 101, 100, 99}, faster{95, 96, 95, 94, 95, 96, 95, 94};
  const std::vector<int> noisy{80, 120, 95, 140, 70, 100, 90, 130};
  EXPECT_EQ(verdict(steady, faster), Comparison::Better);
  EXPECT_EQ(verdict(faster, steady), Comparison::Worse);
  EXPECT_EQ(verdict(steady, noisy), Comparison::Indistinguishable);
  EXPECT_EQ(verdict(steady, steady), Comparison::Indistinguishable);
  // One sample on each side says little.
  EXPECT_EQ(verdict({100}, {95}), Comparison::Indistinguishable);
  EXPECT_EQ(verdict({100}, {50}), Comparison::Better);
  EXPECT_EQ(compare_profiles(profile_of({}), profile_of({100})).error().code, ErrorCode::NotFound);
}

planner::CostModel model_of(double factor, double rms) {
  planner::CostModel model;
  model.op = {planner::OpKind::MatmulAllReduce, 1024, 512, 256, planner::DType::F32, 2};
  planner::VariantCost variant{{"direct", {}}, {}, {}};
  for (auto* lane : {&variant.compute, &variant.communication}) {
    lane->curve.shape = planner::AffineCurve{10 * factor, 0.5 * factor};
    lane->curve.valid_min_x = 64;
    lane->curve.valid_max_x = 1024;
    lane->curve.relative_interval = 0.5;
    lane->curve.quality = {8, rms, rms, rms, ""};
  }
  variant.communication.curve.axis = planner::CurveAxis::Bytes;
  model.variants.push_back(variant);
  return model;
}

TEST(Comparison, OfModelsFollowsTheirCurvesErrors) {
  const auto rows = compare_models(model_of(1, 0.01), model_of(1.1, 0.01)).value();
  ASSERT_FALSE(rows.empty());
  for (const auto& row : rows) EXPECT_EQ(row.verdict, Comparison::Worse) << row.what; // 10 % apart, half-width 2.3 %
  for (const auto& row : compare_models(model_of(1, 0.1), model_of(1.1, 0.1)).value())
    EXPECT_EQ(row.verdict, Comparison::Indistinguishable);
  auto other = model_of(1, 0.01);
  other.variants[0].variant.name = "nccl";
  EXPECT_EQ(compare_models(model_of(1, 0.01), other).error().code, ErrorCode::NotFound);
}

TEST(Comparison, OfModelsIsOfBlocksThatAreTheSameWork) {
  auto longer = model_of(1, 0.01), deeper = model_of(1, 0.01);
  longer.op.m *= 2;
  EXPECT_TRUE(compare_models(model_of(1, 0.01), longer).ok());
  deeper.op.k *= 2;
  EXPECT_EQ(compare_models(model_of(1, 0.01), deeper).error().code, ErrorCode::InvalidSpec);
  auto profile = profile_of({100});
  profile.op = deeper.op;
  EXPECT_EQ(compare_profiles(profile_of({100}), profile).error().code, ErrorCode::InvalidSpec);
}

TEST(Comparison, OfPlansIsOfOneOperator) {
  planner::Plan a;
  a.op = {planner::OpKind::MatmulAllReduce, 1024, 512, 256, planner::DType::F32, 2};
  a.cut.block_rows = {1024};
  a.makespan = {100, 98, 102, planner::Provenance::Measured, ""};
  a.serial_us = 120;
  planner::Plan b = a;
  b.makespan = {80, 78, 82, planner::Provenance::Measured, ""};
  EXPECT_EQ(compare_plans(a, b).value().at(0).verdict, Comparison::Better);
  b.makespan = {99, 97, 101, planner::Provenance::Measured, ""};
  EXPECT_EQ(compare_plans(a, b).value().at(0).verdict, Comparison::Indistinguishable);
  b.op.m = 2048;
  EXPECT_EQ(compare_plans(a, b).error().code, ErrorCode::InvalidSpec);
}

TEST(Comparison, OfRacedPlansKnowsHowWellEachRaceDid) {
  planner::Plan a;
  a.op = {planner::OpKind::MatmulAllReduce, 1024, 512, 256, planner::DType::F32, 2};
  a.cut.block_rows = {1024};
  a.schedule = planner::Schedule::Serial;
  a.validation = planner::Validation{.fused_us = 100, .serial_us = 100, .pair_count = 20};
  a.validation->spread = planner::MeasuredSpread{90, 110, 90, 110, 1};
  planner::Plan b = a;
  b.validation->fused_us = b.validation->serial_us = 103;
  b.validation->spread = planner::MeasuredSpread{93, 113, 93, 113, 1};
  const auto row = [&] { return compare_plans(a, b).value().at(0); };
  EXPECT_EQ(row().what, "measured, serial, at the speed of each race");
  EXPECT_EQ(row().verdict, Comparison::Indistinguishable); // the intervals overlap
  b.validation->fused_us = b.validation->serial_us = 150;
  b.validation->spread = planner::MeasuredSpread{149, 151, 149, 151, 1};
  EXPECT_EQ(row().verdict, Comparison::Worse); // 50 % apart, the wider side is known to 10 %
  b.validation->spread.reset();                // as mc2 before 0.2 kept it: known to 10 %
  EXPECT_EQ(row().verdict, Comparison::Worse);
  b.validation->fused_us = 105;
  EXPECT_EQ(row().verdict, Comparison::Indistinguishable);
  a.serial_us = b.serial_us = 100; // nothing predicts the makespan, so these are known to 10 %, too
  const auto serial = compare_plans(a, b).value().at(1);
  EXPECT_EQ(serial.what, "serial, predicted");
  EXPECT_LT(serial.low, 1);
  EXPECT_GT(serial.high, 1);
}

TEST(Comparison, NamesSizesAsProfileDoes) {
  const auto profile = profile_of({100});
  EXPECT_EQ(compare_profiles(profile, profile).value().at(0).what, "matmul 128 rows, direct");
}

} // namespace
} // namespace mc2::cli::comparison_test
