#include "backends/host/combine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "bf16.hpp"

namespace mc2::executor::host {
namespace {

template <typename Element>
std::vector<const std::byte*> addresses(const std::vector<std::vector<Element>>& partials) {
  std::vector<const std::byte*> result;
  for (const auto& partial : partials) result.push_back(reinterpret_cast<const std::byte*>(partial.data()));
  return result;
}

TEST(SumInRankOrder, AddsInTheOrderOfRanksForLengthsAroundTheTile) {
  for (const std::size_t length : {1U, 7U, 1023U, 1024U, 1025U, 3000U}) {
    // 2^24 + 1 - 2^24 is 0 in this order in f32 (1 is lost), and would be 1 in another.
    const std::vector<std::vector<float>> partials{
        std::vector<float>(length, 0x1p24F), std::vector<float>(length, 1.0F), std::vector<float>(length, -0x1p24F)};
    std::vector<float> result(length, -1.0F);
    sum_in_rank_order(planner::DType::F32, addresses(partials), reinterpret_cast<std::byte*>(result.data()),
                      static_cast<std::int64_t>(length));
    EXPECT_EQ(result, std::vector<float>(length, 0.0F));
  }
}

TEST(SumInRankOrder, AccumulatesShortTypesInF32) {
  // 1 + 2^-8 + 2^-8: each addend is lost in bf16 (halfway, to even), but their f32 sum 1 + 2^-7 is a bf16 number.
  const std::vector<std::vector<Bf16>> partials{{to_bf16(1.0F)}, {to_bf16(0x1p-8F)}, {to_bf16(0x1p-8F)}};
  Bf16 result = 0;
  sum_in_rank_order(planner::DType::Bf16, addresses(partials), reinterpret_cast<std::byte*>(&result), 1);
  EXPECT_EQ(to_float(result), 1.0F + 0x1p-7F);
}

TEST(Bf16, RoundsToNearestEvenAndKeepsSpecialValues) {
  EXPECT_EQ(to_float(to_bf16(1.0F + 0x1p-8F)), 1.0F); // tie, to even
  EXPECT_EQ(to_float(to_bf16(1.0F + 0x1p-7F + 0x1p-8F)), 1.0F + 0x1p-6F);
  EXPECT_EQ(to_float(to_bf16(-1.0F - 0x1.8p-8F)), -1.0F - 0x1p-7F);
  EXPECT_TRUE(std::isinf(to_float(to_bf16(std::numeric_limits<float>::infinity()))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

} // namespace
} // namespace mc2::executor::host
