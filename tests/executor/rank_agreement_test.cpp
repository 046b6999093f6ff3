#include "rank_agreement.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace mc2::executor::rank_agreement_test {
namespace {

TEST(RankAgreement, NoErrorIsNobodys) {
  const std::vector<std::string> texts{error_text({}), error_text({})};
  EXPECT_TRUE(first_error({}, texts).ok());
}

TEST(RankAgreement, TheFirstErrorByRankIsEverybodysAndNamesItsRank) {
  const Result<void> low = Error{ErrorCode::InvalidSpec, "m", "is 0"};
  const Result<void> high = Error{ErrorCode::Unsupported, "dtype", "is odd"};
  const std::vector<std::string> texts{error_text({}), error_text(low), error_text(high)};
  for (const Result<void>& own : {Result<void>{}, low, high}) {
    const auto all = first_error(own, texts);
    ASSERT_FALSE(all.ok());
    EXPECT_EQ(all.error().code, ErrorCode::InvalidSpec);
    EXPECT_EQ(all.error().text(), "rank 1: " + low.error().text());
  }
}

TEST(RankAgreement, AnErrorOfAllAlikeNamesNoRank) {
  const Result<void> own = Error{ErrorCode::InvalidSpec, "m", "is 0"};
  const std::vector<std::string> texts(3, error_text(own));
  EXPECT_EQ(first_error(own, texts).error().text(), own.error().text());
}

TEST(RankAgreement, TheFirstRankThatCallsSomethingElseIsNamedWithBothTexts) {
  const std::vector<std::string> same{"run a", "run a"}, other{"run a", "run a", "run b", "run c"};
  EXPECT_TRUE(check_same_call(same).ok());
  const auto refused = check_same_call(other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Mismatch);
  EXPECT_EQ(refused.error().message, "rank 2 calls run b; rank 0 calls run a; every rank must call the same");
}

TEST(RankAgreement, TheFirstRankOnAnotherMachineIsNamedWithWhatDiffers) {
  const std::vector<std::string> same(2, "cores=2; cpu=a"), other{"cores=2; cpu=a", "cpu=b\\; x; isa=c"};
  const std::vector<std::string> names{"rank 0 on here", "rank 1 on there"};
  EXPECT_TRUE(check_same_machine(same, names).ok());
  const auto refused = check_same_machine(other, names);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
  EXPECT_EQ(
      refused.error().message,
      "rank 1 on there has cpu=b; x, isa=c; rank 0 on here has cores=2, cpu=a; a plan is of one machine, so every "
      "rank needs the same processor, cores, libraries and settings");
}

} // namespace
} // namespace mc2::executor::rank_agreement_test
