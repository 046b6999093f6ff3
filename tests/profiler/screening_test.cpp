#include "tune/screening.hpp"

#include <gtest/gtest.h>

namespace mc2::profiler::screening_test {
namespace {

TEST(Screening, WhoIsFastestInSomeTrialStays) {
  // The first variant wins the first trial, the third wins the other two. The second is close but wins none.
  const std::vector<VariantTimes> times{{50, 300, 900}, {51, 131, 151}, {400, 130, 150}};
  EXPECT_EQ(fastest_variants(times), (std::vector<bool>{true, false, true}));
}

TEST(Screening, OneOfEqualVariantsIsEnough) {
  const std::vector<VariantTimes> times{{10, 20}, {10, 20}};
  EXPECT_EQ(fastest_variants(times), (std::vector<bool>{true, false}));
}

TEST(Screening, WhoTiesWithAnEarlierWinnerIsNotNeeded) {
  // The second variant wins the second trial by less than the noise of runs; the third wins the last trial clearly.
  const std::vector<VariantTimes> times{{40, 100, 200}, {60, 99, 200}, {60, 120, 150}};
  EXPECT_EQ(fastest_variants(times), (std::vector<bool>{true, false, true}));
}

} // namespace
} // namespace mc2::profiler::screening_test
