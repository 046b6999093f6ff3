#include "mc2/profiler/drift.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace mc2::profiler::drift_test {
namespace {

/// A table with every row in every round; time = base * (row + 1) * factor of the round.
std::vector<DriftCell> full_table(int row_count, const std::vector<double>& factors) {
  std::vector<DriftCell> cells;
  for (int round = 0; round < std::ssize(factors); ++round) {
    for (int row = 0; row < row_count; ++row) {
      cells.push_back({row, round, 10.0 * (row + 1) * factors[static_cast<std::size_t>(round)]});
    }
  }
  return cells;
}

TEST(Drift, FindsTheFactorsOfACleanTable) {
  const std::vector factors{1.0, 1.3, 0.8};
  const Drift drift = estimate_drift(full_table(5, factors));
  // Factors are relative to the median round, which has factor 1.
  for (int round = 0; round < 3; ++round) {
    EXPECT_NEAR(drift.factor(round), factors[static_cast<std::size_t>(round)], 1e-9);
    EXPECT_TRUE(drift.is_estimated(round));
  }
  EXPECT_NEAR(drift.range(), 1.3 / 0.8, 1e-9);
}

TEST(Drift, IsNotMovedByOneInterruptedSampleInARound) {
  std::vector<DriftCell> cells = full_table(5, {1.0, 1.3, 0.8});
  cells[7].time_us *= 3; // round 1, row 2
  EXPECT_NEAR(estimate_drift(cells).factor(1), 1.3, 1e-9);
}

TEST(Drift, ComparesRowsThatWereTimedInDifferentRounds) {
  // Rows 0-3 run in all 12 rounds, rows 4-7 only in the first six. From round 6 on everything takes 1.65 times as long.
  // After correction row 4 must cost 5/4 of row 3, its true cost; the raw medians say 5/4 / 1.32.
  std::vector<double> factors(12, 1.0);
  for (std::size_t round = 6; round < factors.size(); ++round) factors[round] = 1.65;
  std::vector<DriftCell> cells;
  for (const DriftCell& cell : full_table(8, factors)) {
    if (cell.row < 4 || cell.round < 6) cells.push_back(cell);
  }
  const Drift drift = estimate_drift(cells);
  EXPECT_NEAR(drift.factor(11) / drift.factor(0), 1.65, 1e-6);
}

TEST(Drift, RoundWithTooFewRowsBorrowsItsNeighbour) {
  std::vector<DriftCell> cells = full_table(5, {1.0, 1.0, 1.4});
  cells.push_back({0, 3, 10.0 * 7});
  const Drift drift = estimate_drift(cells);
  EXPECT_FALSE(drift.is_estimated(3));
  EXPECT_NEAR(drift.factor(3), 1.4, 1e-9);
}

TEST(Drift, IsUnknownWithTooFewRows) {
  const Drift drift = estimate_drift(full_table(kMinDriftRows - 1, {1.0, 1.5}));
  EXPECT_EQ(drift.factor(0), 1);
  EXPECT_EQ(drift.factor(1), 1);
  EXPECT_FALSE(drift.is_estimated(1));
  EXPECT_EQ(drift.range(), 1);
}

TEST(Drift, OfNothingIsOne) {
  const Drift drift = estimate_drift({});
  EXPECT_EQ(drift.factor(0), 1);
  EXPECT_EQ(drift.range(), 1);
}

TEST(Drift, SurvivesNoise) {
  // A factor is the median of 20 rows with 10 % noise, so its standard error is 1.25 * 0.1 / sqrt(20) = 2.8 %. The
  // tolerance is four standard errors.
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, 0.1);
  const std::vector factors{1.0, 1.2, 1.4, 1.65, 1.4, 1.2};
  std::vector<DriftCell> cells = full_table(20, factors);
  for (DriftCell& cell : cells) cell.time_us *= std::exp(noise(random));
  const Drift drift = estimate_drift(cells);
  EXPECT_NEAR(drift.factor(3) / drift.factor(0), 1.65, 1.65 * 4 * 0.028 * std::sqrt(2));
}

TEST(DriftDeathTest, NonPositiveTimeIsABrokenInvariant) {
  std::vector<DriftCell> cells = full_table(5, {1.0, 1.0});
  cells[0].time_us = 0;
  EXPECT_DEATH(static_cast<void>(estimate_drift(cells)), "positive");
}

} // namespace
} // namespace mc2::profiler::drift_test
