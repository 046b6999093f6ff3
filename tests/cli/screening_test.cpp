#include "screening.hpp"

#include <gtest/gtest.h>

namespace mc2::cli {
namespace {

TEST(Screening, WhoIsFastestInSomeTrialStays) {
  // The first wins the first trial, the third the other two; the second is close everywhere and wins none.
  const std::vector<VariantTrial> trials{{50, 300, 900}, {51, 131, 151}, {400, 130, 150}};
  EXPECT_EQ(winners(trials), (std::vector<bool>{true, false, true}));
}

TEST(Screening, OneOfEqualVariantsIsEnough) {
  const std::vector<VariantTrial> trials{{10, 20}, {10, 20}};
  EXPECT_EQ(winners(trials), (std::vector<bool>{true, false}));
}

} // namespace
} // namespace mc2::cli
