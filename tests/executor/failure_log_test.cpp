#include "mc2/executor/failure_log.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <vector>

namespace mc2::executor::failure_log_test {
namespace {

TEST(FailureLog, GoesToTheSinkThatWasMadeLast) {
  std::vector<std::string> first, second;
  const FailureLog outer([&](const std::string& line) { first.push_back(line); });
  std::optional<FailureLog> inner([&](const std::string& line) { second.push_back(line); });
  log_failure("one");
  inner.reset();
  log_failure("two");
  EXPECT_EQ(second, std::vector<std::string>{"one"});
  EXPECT_EQ(first, std::vector<std::string>{"two"});
}

TEST(FailureLog, GoesToStandardErrorWithoutASink) {
  ::testing::internal::CaptureStderr();
  log_failure("text=\"closing devices: none\"");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "mc2: error: text=\"closing devices: none\"\n");
}

TEST(FailureLog, ASinkThatThrowsHarmsNobody) {
  const FailureLog log([](const std::string&) { throw std::runtime_error("no space"); });
  log_failure("one");
}

} // namespace
} // namespace mc2::executor::failure_log_test
