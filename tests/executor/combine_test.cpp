#include "lanes/combine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "bf16.hpp"

namespace mc2::executor::lanes::combine_test {
namespace {

template <typename Element>
std::vector<const std::byte*> addresses(const std::vector<std::vector<Element>>& partials) {
  std::vector<const std::byte*> result;
  for (const auto& partial : partials) result.push_back(reinterpret_cast<const std::byte*>(partial.data()));
  return result;
}

template <typename Element>
std::byte* bytes_of(std::vector<Element>& elements) {
  return reinterpret_cast<std::byte*>(elements.data());
}

TEST(SumInRankOrder, AddsInTheOrderOfRanksForLengthsAroundTheTile) {
  for (const std::size_t length : {1U, 7U, 1023U, 1024U, 1025U, 3000U}) {
    // In this order 2^24 + 1 - 2^24 is 0 in f32, because the 1 is lost. In another order the sum would be 1.
    const std::vector<std::vector<float>> partials{
        std::vector<float>(length, 0x1p24F), std::vector<float>(length, 1.0F), std::vector<float>(length, -0x1p24F)};
    std::vector<float> result(length, -1.0F);
    const auto count = static_cast<std::int64_t>(length);
    sum_in_rank_order(planner::DType::F32, addresses(partials), {bytes_of(result), count, count}, count);
    EXPECT_EQ(result, std::vector<float>(length, 0.0F));
  }
}

TEST(SumPastCaches, GivesTheSameBits) {
  constexpr std::int64_t kCount = (1 << 19) + 5; // 2 MiB and more is written past the caches
  std::vector<std::vector<float>> partials(3, std::vector<float>(kCount));
  for (std::size_t i = 0; i < kCount; ++i) partials[0][i] = partials[1][i] = 0.1F * static_cast<float>(i % 977);
  partials[2].assign(kCount, 1e-3F);
  std::vector<float> expected(kCount), result(kCount);
  sum_in_rank_order(planner::DType::F32, addresses(partials), {bytes_of(expected), kCount, kCount}, kCount);
  sum_past_caches(planner::DType::F32, addresses(partials), {bytes_of(result), kCount, kCount}, kCount);
  EXPECT_EQ(result, expected);
}

TEST(SumInRankOrder, AccumulatesShortTypesInF32) {
  // In bf16 1 + 2^-8 rounds to 1 (a tie goes to even), so both addends would be lost. Their f32 sum 1 + 2^-7 is a bf16
  // number.
  const std::vector<std::vector<Bf16>> partials{{to_bf16(1.0F)}, {to_bf16(0x1p-8F)}, {to_bf16(0x1p-8F)}};
  std::vector<Bf16> result(1);
  sum_in_rank_order(planner::DType::Bf16, addresses(partials), {bytes_of(result), 1, 1}, 1);
  EXPECT_EQ(to_float(result[0]), 1.0F + 0x1p-7F);
}

TEST(SumInRankOrder, AddsBiasByColumnAndResidualByElementBeforeItRounds) {
  // The target is two rows of two columns in a matrix of three columns; the residual has the same layout. In bf16
  // 1 + 2^-8 rounds to 1, so 1 + 2^-8 + 2^-8 + 0 is 1 + 2^-7 only if no intermediate sum is rounded.
  const std::vector<std::vector<float>> partials{{1, 2, 3, 4}, {10, 20, 30, 40}};
  std::vector<float> result(6, -1.0F), bias{100, 200}, residual{1000, 2000, 0, 3000, 4000, 0};
  sum_in_rank_order(planner::DType::F32, addresses(partials),
                    {bytes_of(result), 2, 3, bytes_of(bias), bytes_of(residual)}, 4);
  EXPECT_EQ(result, (std::vector<float>{1111, 2222, -1, 3133, 4244, -1}));
  const std::vector<std::vector<Bf16>> short_partials{{to_bf16(1.0F)}};
  std::vector<Bf16> short_result(1), short_bias{to_bf16(0x1p-8F)}, short_residual{to_bf16(0x1p-8F)};
  sum_in_rank_order(planner::DType::Bf16, addresses(short_partials),
                    {bytes_of(short_result), 1, 1, bytes_of(short_bias), bytes_of(short_residual)}, 1);
  EXPECT_EQ(to_float(short_result[0]), 1.0F + 0x1p-7F);
}

TEST(SumInRankOrder, NormalisesEachRowOfWhatItRounded) {
  // Two rows of 20 columns, zero but for 3 and 4 in the first and 6 and 8 in the second. The means of their squares are
  // 25 / 20 and 100 / 20.
  std::vector<std::vector<float>> partials{std::vector<float>(40), std::vector<float>(40)};
  partials[0][0] = 3, partials[1][1] = 4, partials[0][38] = 6, partials[1][39] = 8;
  std::vector<float> result(40, -1.0F), normed(40, -1.0F), weight(20, 1.0F);
  weight[1] = weight[19] = 10;
  const SumTarget target{.first = bytes_of(result),
                         .columns = 20,
                         .row_stride = 20,
                         .norm = {.rows = bytes_of(normed), .weight = bytes_of(weight), .epsilon = 0.75F}};
  sum_in_rank_order(planner::DType::F32, addresses(partials), target, 40);
  EXPECT_EQ(result[1], 4);
  EXPECT_NEAR(normed[0], 3 / std::sqrt(2.0), 1e-6);
  EXPECT_NEAR(normed[1], 40 / std::sqrt(2.0), 1e-5);
  EXPECT_EQ(normed[2], 0);
  EXPECT_NEAR(normed[38], 6 / std::sqrt(5.75), 1e-6);
  EXPECT_NEAR(normed[39], 80 / std::sqrt(5.75), 1e-5);
  // 1 + 2^-9 rounds to 1 in bf16, and the rounded sum is what must be normalised.
  const std::vector<std::vector<Bf16>> short_partials{{to_bf16(1.0F)}, {to_bf16(0x1p-9F)}};
  std::vector<Bf16> short_result(1), short_normed(1), short_weight{to_bf16(2.0F)};
  const SumTarget short_target{.first = bytes_of(short_result),
                               .columns = 1,
                               .row_stride = 1,
                               .norm = {bytes_of(short_normed), bytes_of(short_weight), 3.0F}};
  sum_in_rank_order(planner::DType::Bf16, addresses(short_partials), short_target, 1);
  EXPECT_EQ(to_float(short_normed[0]), 1.0F);
}

TEST(SumInRankOrder, LeavesWhatLiesBetweenTheTargetsRowsAlone) {
  // The target is two rows of three columns in a matrix of five columns: 1 + 10, 2 + 20, ...
  const std::vector<std::vector<float>> partials{{1, 2, 3, 4, 5, 6}, {10, 20, 30, 40, 50, 60}};
  std::vector<float> result(10, -1.0F);
  sum_in_rank_order(planner::DType::F32, addresses(partials), {bytes_of(result) + sizeof(float), 3, 5}, 6);
  EXPECT_EQ(result, (std::vector<float>{-1, 11, 22, 33, -1, -1, 44, 55, 66, -1}));
}

TEST(Bf16, RoundsToNearestEvenAndKeepsSpecialValues) {
  EXPECT_EQ(to_float(to_bf16(1.0F + 0x1p-8F)), 1.0F); // a tie goes to even
  EXPECT_EQ(to_float(to_bf16(1.0F + 0x1p-7F + 0x1p-8F)), 1.0F + 0x1p-6F);
  EXPECT_EQ(to_float(to_bf16(-1.0F - 0x1.8p-8F)), -1.0F - 0x1p-7F);
  EXPECT_TRUE(std::isinf(to_float(to_bf16(std::numeric_limits<float>::infinity()))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

} // namespace
} // namespace mc2::executor::lanes::combine_test
