#include "mc2/store/imported.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mc2::store::imported_test {
namespace {

planner::Profile profile_with(const std::string& nccl) {
  planner::Profile profile;
  profile.fingerprint.fields = imported_fields("h100");
  profile.fingerprint.fields["nccl"] = nccl;
  return profile;
}

TEST(JoinImported, AVersionOfNcclIsTheSameInEveryForm) {
  // Kept before they had one form.
  EXPECT_TRUE(join_imported("h100", {profile_with("22807"), profile_with("2.28.7")}));
  EXPECT_TRUE(join_imported("h100", {profile_with("2.28.7"), profile_with("2.28.7+cuda13.0")}));
  const auto other = join_imported("h100", {profile_with("2.28.7"), profile_with("22902")});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::Stale);
  EXPECT_THAT(other.error().message, ::testing::HasSubstr("disagree in nccl: '2.28.7' and '22902'"));
}

} // namespace
} // namespace mc2::store::imported_test
