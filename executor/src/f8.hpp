#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace mc2::executor {

/// One e4m3 number of 8 bits: 4 bits of exponent, biased by 7, and 3 of fraction; no infinities, 448 is the largest.
/// Micikevicius et al., "FP8 formats for deep learning", arXiv 2209.05433.
struct F8E4m3 {
  std::uint8_t bits = 0;
};

[[nodiscard]] inline float to_float(F8E4m3 value) noexcept {
  const std::uint32_t sign = (value.bits & 0x80U) << 24U;
  const std::uint32_t magnitude = value.bits & 0x7FU;
  if (magnitude == 0x7FU) return std::bit_cast<float>(sign | 0x7FC00000U);
  // The exponents' biases differ by 120; multiplying by 2^120 also makes subnormal numbers normal.
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 20U) * 0x1p120F));
}

/// Rounds to nearest, ties to even. A NaN stays a NaN; a number beyond 448 becomes 448, as in conversions of GPUs.
[[nodiscard]] inline F8E4m3 to_f8e4m3(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24U) & 0x80U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {static_cast<std::uint8_t>(sign | 0x7FU)};
  if (magnitude >= 0x43E00000U) return {static_cast<std::uint8_t>(sign | 0x7EU)}; // 448 and more
  if (magnitude < 0x3C800000U) {                                                  // below 2^-6: multiples of 2^-9
    const float steps = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p9F);
    return {static_cast<std::uint8_t>(sign | static_cast<std::uint32_t>(steps))};
  }
  const std::uint32_t rounded = magnitude + 0x7FFFFU + ((magnitude >> 20U) & 1U);
  return {static_cast<std::uint8_t>(sign | ((rounded - (120U << 23U)) >> 20U))};
}

} // namespace mc2::executor
