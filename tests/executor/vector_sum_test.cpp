#include "lanes/vector_sum.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "element.hpp"

namespace mc2::executor::lanes::vector_sum_test {
namespace {

/// `count` partials of `length` numbers whose sums round, so that the order of additions shows.
std::vector<std::vector<float>> make_partials(std::size_t count, std::size_t length) {
  std::vector<std::vector<float>> partials(count, std::vector<float>(length));
  for (std::size_t rank = 0; rank < count; ++rank) {
    for (std::size_t i = 0; i < length; ++i)
      partials[rank][i] = 0.1F * static_cast<float>(rank + 1) + 1e-3F * static_cast<float>(i % 977);
  }
  return partials;
}

template <typename Element>
std::vector<const std::byte*> addresses(const std::vector<std::vector<Element>>& partials) {
  std::vector<const std::byte*> found;
  for (const auto& partial : partials) found.push_back(reinterpret_cast<const std::byte*>(partial.data()));
  return found;
}

TEST(VectorSum, AddsInTheOrderOfThePartialsToTheBitHoweverItWrites) {
  // The lengths are around that of a vector and of a tile of 1024.
  for (const std::size_t length : {1U, 3U, 8U, 1023U, 1024U, 1025U, 4100U}) {
    for (const std::size_t count : {2U, 3U, 8U}) {
      const auto partials = make_partials(count, length);
      std::vector<float> expected(length);
      for (std::size_t i = 0; i < length; ++i) {
        float sum = partials[0][i];
        for (std::size_t rank = 1; rank < count; ++rank) sum += partials[rank][i];
        expected[i] = sum;
      }
      for (const bool streams : {false, true}) {
        // The result starts one number after a vector's alignment. The numbers before and after it must stay unchanged.
        std::vector<float> result(length + 2, -1.0F);
        sum_f32(addresses(partials), result.data() + 1, static_cast<std::int64_t>(length), streams);
        EXPECT_EQ(std::vector<float>(result.begin() + 1, result.end() - 1), expected) << length << " x " << count;
        EXPECT_EQ(result.front(), -1.0F);
        EXPECT_EQ(result.back(), -1.0F);
      }
      std::vector<float> aligned(length + 16, -1.0F);
      sum_f32(addresses(partials), aligned.data(), static_cast<std::int64_t>(length), true);
      EXPECT_THAT(std::vector<float>(aligned.begin(), aligned.begin() + static_cast<std::ptrdiff_t>(length)),
                  ::testing::ElementsAreArray(expected));
    }
  }
}

/// Partials of a 16-bit type: the first holds every number of the type, the others random numbers.
template <typename Element>
std::vector<std::vector<Element>> every_number(std::size_t count) {
  std::minstd_rand random(1);
  std::vector<std::vector<Element>> partials(count, std::vector<Element>((1U << 16U) + 21));
  for (auto& partial : partials) {
    std::size_t i = 0;
    for (Element& element : partial) {
      const auto bits = static_cast<std::uint16_t>(&partial == &partials.front() ? i++ : random() >> 8U);
      element = std::bit_cast<Element>(bits);
    }
  }
  return partials;
}

/// Expects the sum in f32, partial after partial, rounded once, to the bit but for NaNs. This must hold for every kind
/// of vectors, and whether the sum is written to memory of its own or over a partial.
template <typename Element>
void expect_rounded_once() {
  for (const std::size_t count : {2U, 3U, 5U}) {
    const auto partials = every_number<Element>(count);
    for (const Vectors widest : {Vectors::None, Vectors::Avx2, Vectors::Avx512}) {
      auto given = partials;
      const auto from = addresses(given);
      auto& result = given[count - 1];
      const std::span<const std::byte* const> all(from);
      const auto length = static_cast<std::int64_t>(result.size());
      std::vector<std::vector<float>> both(2, std::vector<float>(result.size()));
      std::vector<Element> in_two_steps(result.size());
      sum_short<Element>(all.first(count - 1), both[0].data(), length, widest);
      sum_short<Element>(all.last(1), both[1].data(), length, widest);
      sum_short<float>(addresses(both), in_two_steps.data(), length, widest);
      sum_short<Element>(all, result.data(), length, widest);
      for (std::size_t i = 0; i < result.size(); ++i) {
        float expected = load(partials[0][i]);
        for (std::size_t rank = 1; rank < count; ++rank) expected += load(partials[rank][i]);
        Element rounded{};
        store(expected, rounded);
        for (const Element sum : {result[i], in_two_steps[i]}) {
          const bool is_same = std::bit_cast<std::uint16_t>(rounded) == std::bit_cast<std::uint16_t>(sum);
          ASSERT_TRUE(is_same || (std::isnan(expected) && std::isnan(load(sum)))) << count << " partials, " << i;
        }
      }
    }
  }
}

TEST(VectorSum, ShortFloatsAreRoundedOnceByAllVectorsAlike) {
  expect_rounded_once<Bf16>();
  expect_rounded_once<F16>();
}

TEST(VectorSum, IntegersWrap) {
  for (const std::size_t length : {1U, 63U, 1024U, 2100U}) {
    std::vector<std::vector<std::int8_t>> partials(3, std::vector<std::int8_t>(length));
    std::vector<std::int8_t> expected(length);
    for (std::size_t i = 0; i < length; ++i) {
      int sum = 0;
      for (std::size_t rank = 0; rank < 3; ++rank) {
        partials[rank][i] = static_cast<std::int8_t>(37 * rank + i);
        sum += partials[rank][i];
      }
      expected[i] = static_cast<std::int8_t>(sum);
    }
    auto added = partials[0];
    add_i8(partials[1].data(), added.data(), static_cast<std::int64_t>(length));
    add_i8(partials[2].data(), added.data(), static_cast<std::int64_t>(length));
    EXPECT_EQ(added, expected);
    sum_i8(addresses(partials), partials[1].data(), static_cast<std::int64_t>(length));
    EXPECT_EQ(partials[1], expected);
  }
}

} // namespace
} // namespace mc2::executor::lanes::vector_sum_test
