#include "support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::cli::support_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Rows = Result<std::vector<std::string>>;

const std::vector<std::string> kHeader{"operator", "benefit"};

TEST(BenchRows, AreAllPrinted) {
  ::testing::internal::CaptureStdout();
  const auto done = print_rows("figures", kHeader, 2, [](std::size_t i) {
    return Rows({"case " + std::to_string(i), "1 %"});
  });
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("figures\n"), HasSubstr("benefit"), HasSubstr("case 0"), HasSubstr("case 1")));
  EXPECT_EQ(done.value(), ExitCode::Success);
}

TEST(BenchRows, ThatWereFinishedBeforeAnInterruptionArePrinted) {
  ::testing::internal::CaptureStdout();
  const auto done = print_rows("figures", kHeader, 3, [](std::size_t i) {
    return i < 2 ? Rows({"case " + std::to_string(i), "1 %"})
                 : Rows(Error{ErrorCode::Cancelled, "race 1", "interrupted"});
  });
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("figures, 2 of 3\n"), HasSubstr("case 1"), Not(HasSubstr("case 2"))));
  EXPECT_EQ(to_exit_code(done.error().code), ExitCode::Interrupted);
}

TEST(BenchRows, PrintNothingWhereNoneWasFinished) {
  ::testing::internal::CaptureStdout();
  const auto done = print_rows("figures", kHeader, 3, [](std::size_t) {
    return Rows(Error{ErrorCode::Cancelled, "", "interrupted"});
  });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_FALSE(done.ok());
}

} // namespace
} // namespace mc2::cli::support_test
