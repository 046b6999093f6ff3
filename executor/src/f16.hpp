#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace mc2::executor {

/// One IEEE binary16 number as its bits.
struct F16 {
  std::uint16_t bits = 0;
};

[[nodiscard]] inline float to_float(F16 value) noexcept {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16U;
  const std::uint32_t magnitude = (value.bits & 0x7FFFU) << 13U;
  // The exponents' biases differ by 112; multiplying by 2^112 also makes subnormal numbers normal. It is done for
  // infinities and NaNs, too, so that loops have no branch.
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  return std::bit_cast<float>(sign | (magnitude >= 0x7C00U << 13U ? magnitude | 0x7F800000U : finite));
}

/// Rounds to nearest, ties to even. A NaN stays a NaN; a number that rounds to more than 65504 becomes infinite.
[[nodiscard]] inline F16 to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {static_cast<std::uint16_t>(sign | 0x7E00U)};
  if (magnitude >= 0x477FF000U) return {static_cast<std::uint16_t>(sign | 0x7C00U)}; // 65520 and more
  if (magnitude < 0x38800000U) {                                                     // below 2^-14: multiples of 2^-24
    const float steps = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24F);
    return {static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(steps))};
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
  return {static_cast<std::uint16_t>(sign | ((rounded - (112U << 23U)) >> 13U))};
}

} // namespace mc2::executor
