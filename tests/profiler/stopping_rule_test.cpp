#include "mc2/profiler/stopping_rule.hpp"

#include <ostream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::profiler::stopping_rule_test {
namespace {

StoppingRule rule_after(const StoppingOptions& options, int count, double (*time)(int)) {
  StoppingRule rule(options);
  for (int i = 0; i < count; ++i) rule.add(time(i));
  return rule;
}

double steady(int) { return 100; }
double noisy(int i) { return i % 2 == 0 ? 100 : 200; }

TEST(StoppingRule, WaitsForTheMinimumHoweverSteady) {
  const StoppingRule rule = rule_after({}, 6, steady);
  EXPECT_FALSE(rule.is_finished());
  EXPECT_EQ(rule.reason(), "6 samples of at least 7");
  EXPECT_EQ(rule.expected_count(), 7);
}

TEST(StoppingRule, StopsAtTheMinimumWhenSteady) {
  const StoppingRule rule = rule_after({}, 7, steady);
  EXPECT_TRUE(rule.is_finished());
  EXPECT_TRUE(rule.is_settled());
  EXPECT_EQ(rule.reason(), "interval 0.00 % after 7 samples");
}

TEST(StoppingRule, GoesOnWhileTheIntervalIsWide) {
  // Of 100 200 100 200 100 200 100 the lower quartile is 100, and its upper bound is the 5th smallest value, 200.
  const StoppingRule rule = rule_after({.min_count = 7, .max_count = 40}, 7, noisy);
  EXPECT_FALSE(rule.is_finished());
  EXPECT_THAT(rule.reason(), ::testing::HasSubstr("waiting for 2.00 %"));
  EXPECT_EQ(rule.expected_count(), 40); // 7 * (0.5 / 0.02)^2 is beyond the maximum
}

TEST(StoppingRule, StopsAtTheMaximumWithoutBeingSettled) {
  const StoppingOptions options{.min_count = 2, .max_count = 4};
  const StoppingRule rule = rule_after(options, 4, [](int i) { return 100.0 * (i + 1); });
  EXPECT_TRUE(rule.is_finished());
  EXPECT_FALSE(rule.is_settled());
  EXPECT_THAT(rule.reason(), ::testing::HasSubstr("at the maximum of 4 samples"));
}

TEST(StoppingRule, CountsWhatItWasGiven) { EXPECT_EQ(rule_after({}, 3, steady).count(), 3); }

struct BadOption {
  std::string name;
  StoppingOptions options;
  std::string field;
};
void PrintTo(const BadOption& param, std::ostream* out) { *out << param.name; }
class StoppingOptionsTest : public ::testing::TestWithParam<BadOption> {};

TEST_P(StoppingOptionsTest, IsRefusedByName) {
  const auto valid = GetParam().options.validate();
  ASSERT_FALSE(valid.ok());
  EXPECT_EQ(valid.error().code, ErrorCode::InvalidSpec);
  EXPECT_EQ(valid.error().field, GetParam().field);
}

INSTANTIATE_TEST_SUITE_P(
    All, StoppingOptionsTest,
    ::testing::Values(BadOption{"NoMinimum", {.min_count = 0}, "stopping.min_count"},
                      BadOption{"MaximumBelowMinimum", {.min_count = 7, .max_count = 6}, "stopping.max_count"},
                      BadOption{"NegativeWidth", {.relative_half_width = -0.1}, "stopping.relative_half_width"}));

TEST(StoppingOptions, DefaultsAreLegal) { EXPECT_TRUE(StoppingOptions{}.validate().ok()); }

} // namespace
} // namespace mc2::profiler::stopping_rule_test
