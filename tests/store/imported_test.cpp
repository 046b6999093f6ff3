#include "mc2/store/imported.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "place.hpp"

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
  EXPECT_TRUE(join_imported("h100", std::vector{profile_with("22807"), profile_with("2.28.7")}));
  EXPECT_TRUE(join_imported("h100", std::vector{profile_with("2.28.7"), profile_with("2.28.7+cuda13.0")}));
  const auto other = join_imported("h100", std::vector{profile_with("2.28.7"), profile_with("22902")});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::Stale);
  EXPECT_THAT(other.error().message, ::testing::HasSubstr("disagree in nccl: '2.28.7' and '22902'"));
}

TEST(KeepImported, NamesTheFieldOfACutThatIsNoMeasurement) {
  const place::TemporaryDirectory directory;
  Store store = Store::open(directory / "mc2.db", OpenMode::ReadWrite).value();
  const planner::OpSpec op{planner::OpKind::MatmulAllReduce, 4096, 8192, 3072, planner::DType::F16, 8};
  const auto message_of = [&](const planner::CutRuns& runs, const std::string& device = "kk") {
    const std::vector<planner::CutRuns> cuts{runs};
    const auto kept = keep_imported(store, {}, {op, {imported_fields(device)}, {}}, cuts, "2027-01-31T12:00:00Z");
    return kept ? "" : kept.error().text();
  };
  planner::CutRuns runs{{.fused_us = 1262, .serial_us = 1874}, "512+4x896"};
  const auto with = [&](double planner::CutRuns::*field, double value) {
    planner::CutRuns changed = runs;
    changed.*field = value;
    return message_of(changed);
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(with(&planner::CutRuns::fused_us, -1), HasSubstr("'512+4x896': fused_us is -1 us; legal: 1e-6 to 1e15"));
  EXPECT_THAT(with(&planner::CutRuns::fused_us, std::nan("")), HasSubstr("fused_us is nan"));
  EXPECT_THAT(with(&planner::CutRuns::serial_us, -5), HasSubstr("serial_us is -5 us; legal: 0, and 1e-6 to 1e15"));
  EXPECT_THAT(with(&planner::CutRuns::compute_blocks_us, std::nan("")), HasSubstr("compute_blocks_us is nan"));
  for (const double error : {5.0, 1.0, -1.0})
    EXPECT_THAT(with(&planner::CutRuns::relative_error, error), HasSubstr("relative_error is ")) << error;
  EXPECT_THAT(with(&planner::CutRuns::relative_error, std::nan("")), HasSubstr("and below 1"));
  EXPECT_THAT(message_of(runs, ""), HasSubstr("device: is empty; name the machine"));
  EXPECT_EQ(message_of(runs), "");
}

} // namespace
} // namespace mc2::store::imported_test
