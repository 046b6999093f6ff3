#include "f16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mc2::executor::f16_test {
namespace {

TEST(F16, EveryNumberSurvivesTheRoundTripAndHasItsValue) {
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const F16 value{static_cast<std::uint16_t>(bits)};
    const unsigned exponent = (bits >> 10U) & 31U, fraction = bits & 1023U;
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(to_float(value)));
      EXPECT_TRUE(std::isnan(to_float(to_f16(to_float(value)))));
      continue;
    }
    EXPECT_EQ(to_f16(to_float(value)).bits, bits);
    if (exponent == 31) continue;
    // By IEEE 754 the value is (1 + f / 1024) 2^(e - 15), and f 2^-24 below the normal range.
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, static_cast<int>(exponent) - 25);
    EXPECT_EQ(to_float(value), (bits & 0x8000U) != 0 ? -magnitude : magnitude);
  }
}

TEST(F16, RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(to_float(to_f16(1.0F + 0x1p-11F)), 1.0F); // a tie goes to even
  EXPECT_EQ(to_float(to_f16(1.0F + 0x1p-10F + 0x1p-11F)), 1.0F + 0x1p-9F);
  EXPECT_EQ(to_float(to_f16(-1.0F - 0x1.8p-11F)), -1.0F - 0x1p-10F);
  EXPECT_EQ(to_float(to_f16(65519.0F)), 65504.0F);
  EXPECT_TRUE(std::isinf(to_float(to_f16(65520.0F))));
  EXPECT_EQ(to_float(to_f16(0x1p-25F)), 0.0F); // a tie goes to even
  EXPECT_EQ(to_float(to_f16(0x1.8p-25F)), 0x1p-24F);
  EXPECT_EQ(to_float(to_f16(0x1.ffcp-15F + 0x1p-26F)), 0x1p-14F); // rounds up into the normal range
}

} // namespace
} // namespace mc2::executor::f16_test
