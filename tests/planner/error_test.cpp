#include "mc2/planner/error.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

namespace mc2::error_test {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error{ErrorCode::InvalidSpec, "value", "must be even"};
  return value / 2;
}

Result<void> even(int value) {
  MC2_TRY(half(value));
  return {};
}

TEST(Assign, DeclaresTheValueOrReturnsTheErrorAsAnyResult) {
  const auto text_of_half = [](int value) -> Result<std::string> {
    MC2_ASSIGN(const auto result, half(value));
    return std::to_string(result);
  };
  EXPECT_EQ(text_of_half(6).value(), "3");
  EXPECT_EQ(text_of_half(7).error().text(), "value: must be even");
}

TEST(Assign, AssignsToWhatIsThereAndLeavesItWhereThereIsAnError) {
  int kept = 1;
  const auto keep_half = [&](int value) -> Result<void> {
    MC2_ASSIGN(kept, half(value));
    return {};
  };
  EXPECT_TRUE(keep_half(6));
  EXPECT_FALSE(keep_half(7));
  EXPECT_EQ(kept, 3);
}

TEST(Assign, EvaluatesOnceAndMovesWhatCannotBeCopied) {
  int call_count = 0;
  const auto make = [&]() -> Result<std::unique_ptr<int>> {
    ++call_count;
    return std::make_unique<int>(5);
  };
  const auto content = [&]() -> Result<int> {
    MC2_ASSIGN(const auto made, make());
    return *made;
  };
  EXPECT_EQ(content().value(), 5);
  EXPECT_EQ(call_count, 1);
}

TEST(Assign, TakesCommasAndSeveralInOneBlock) {
  const auto sum = []() -> Result<int> {
    MC2_ASSIGN(const auto first, Result<std::map<int, int>>(std::map<int, int>{{1, 2}, {3, 4}}));
    MC2_ASSIGN(const auto second, half(20));
    return first.at(3) + second;
  };
  EXPECT_EQ(sum().value(), 4 + 10);
}

TEST(Try, ReturnsTheErrorAndIsOneStatement) {
  const auto check = [](bool is_wanted, int value) -> Result<std::string> {
    if (is_wanted)
      MC2_TRY(even(value));
    else
      return std::string("not asked");
    return std::string("even");
  };
  EXPECT_EQ(check(true, 2).value(), "even");
  EXPECT_EQ(check(true, 3).error().code, ErrorCode::InvalidSpec);
  EXPECT_EQ(check(false, 3).value(), "not asked");
}

TEST(Try, TakesOneInTheLambdaThatItCalls) {
  const auto call = [](const auto& function) { return function(); };
  const auto both = [&](int first, int second) -> Result<void> {
    MC2_TRY(even(first));
    MC2_TRY(call([&]() -> Result<void> {
      MC2_TRY(even(second));
      return {};
    }));
    return {};
  };
  EXPECT_TRUE(both(2, 4));
  EXPECT_FALSE(both(2, 3));
}

} // namespace
} // namespace mc2::error_test
