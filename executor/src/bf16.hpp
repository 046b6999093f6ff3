#pragma once

#include <bit>
#include <cstdint>

namespace mc2::executor {

/// One bfloat16 number as its bits: the upper half of an IEEE binary32.
using Bf16 = std::uint16_t;

[[nodiscard]] inline float to_float(Bf16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16U);
}

/// Rounds to nearest, ties to even; a NaN stays a NaN.
[[nodiscard]] inline Bf16 to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return static_cast<Bf16>((is_nan ? (bits | 0x00400000U) : rounded) >> 16U);
}

} // namespace mc2::executor
