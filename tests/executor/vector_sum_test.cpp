#include "lanes/vector_sum.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mc2::executor::lanes::vector_sum_test {
namespace {

/// `count` partials of `length` numbers that are not sums of powers of two, so that the order of adding shows.
std::vector<std::vector<float>> make_partials(std::size_t count, std::size_t length) {
  std::vector<std::vector<float>> partials(count, std::vector<float>(length));
  for (std::size_t rank = 0; rank < count; ++rank) {
    for (std::size_t i = 0; i < length; ++i)
      partials[rank][i] = 0.1F * static_cast<float>(rank + 1) + 1e-3F * static_cast<float>(i % 977);
  }
  return partials;
}

std::vector<const float*> addresses(const std::vector<std::vector<float>>& partials) {
  std::vector<const float*> found;
  for (const auto& partial : partials) found.push_back(partial.data());
  return found;
}

TEST(VectorSum, AddsInTheOrderOfThePartialsToTheBitHoweverItWrites) {
  // Lengths around a vector and a tile of 1024.
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
        // One number off a vector's alignment, and one beyond the end that must stay.
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

} // namespace
} // namespace mc2::executor::lanes::vector_sum_test
