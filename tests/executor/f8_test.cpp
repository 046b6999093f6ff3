#include "f8.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mc2::executor::f8_test {
namespace {

TEST(F8E4m3, EveryNumberSurvivesTheRoundTripAndHasItsValue) {
  for (unsigned bits = 0; bits < 0x100U; ++bits) {
    const F8E4m3 value{static_cast<std::uint8_t>(bits)};
    const unsigned exponent = (bits >> 3U) & 15U, fraction = bits & 7U;
    if (exponent == 15 && fraction == 7) {
      EXPECT_TRUE(std::isnan(to_float(value)));
      EXPECT_TRUE(std::isnan(to_float(to_f8e4m3(to_float(value)))));
      continue;
    }
    EXPECT_EQ(to_f8e4m3(to_float(value)).bits, bits);
    // The value is (1 + f / 8) 2^(e - 7), and f 2^-9 below the normal range.
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8.0 + fraction, static_cast<int>(exponent) - 10);
    EXPECT_EQ(to_float(value), (bits & 0x80U) != 0 ? -magnitude : magnitude);
  }
}

TEST(F8E4m3, RoundsToNearestEvenAndKeepsToItsLargest) {
  EXPECT_EQ(to_float(to_f8e4m3(1.0625F)), 1.0F); // a tie goes to even
  EXPECT_EQ(to_float(to_f8e4m3(1.1875F)), 1.25F);
  EXPECT_EQ(to_float(to_f8e4m3(-1.07F)), -1.125F);
  EXPECT_EQ(to_float(to_f8e4m3(1.9999F)), 2.0F); // carries into the exponent
  EXPECT_EQ(to_float(to_f8e4m3(449.0F)), 448.0F);
  EXPECT_EQ(to_float(to_f8e4m3(-std::numeric_limits<float>::infinity())), -448.0F);
  EXPECT_EQ(to_float(to_f8e4m3(0x1p-10F)), 0.0F); // a tie goes to even
  EXPECT_EQ(to_float(to_f8e4m3(0x1.8p-10F)), 0x1p-9F);
  EXPECT_EQ(to_float(to_f8e4m3(0x1.fp-7F)), 0x1p-6F); // rounds up into the normal range
}

} // namespace
} // namespace mc2::executor::f8_test
