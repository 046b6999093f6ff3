#include "pages/tune_progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::cli::tune_progress_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

/// What standard error, which is no terminal here, is sent of a first progress.
std::string shown(milliseconds remaining, std::optional<milliseconds> budget_left) {
  TuneProgressLine line;
  const auto hooks = line.hooks();
  ::testing::internal::CaptureStderr();
  hooks.on_progress({.label = "profile x", .remaining = remaining, .detail = "3 of 9", .budget_left = budget_left});
  return ::testing::internal::GetCapturedStderr();
}

TEST(TuneProgressLine, SaysAtMostHowLongWhileTheBudgetLasts) {
  EXPECT_THAT(shown(milliseconds(4000), milliseconds(9100)), HasSubstr("left, 3 of 9; at most 10 s"));
}

TEST(TuneProgressLine, NamesNoLimitThatIsSpentOrBelowTheEstimate) {
  EXPECT_THAT(shown(milliseconds(24000), milliseconds(0)), Not(HasSubstr("at most")));
  EXPECT_THAT(shown(milliseconds(0), milliseconds(-5)), Not(HasSubstr("at most")));
  EXPECT_THAT(shown(milliseconds(24000), milliseconds(3000)), Not(HasSubstr("at most")));
  EXPECT_THAT(shown(milliseconds(24000), std::nullopt), Not(HasSubstr("at most")));
}

} // namespace
} // namespace mc2::cli::tune_progress_test
