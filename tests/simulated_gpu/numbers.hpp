#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "f16.hpp"
#include "f8.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::simulated {

struct Bf16 {
  std::uint16_t bits = 0;
};

inline float to_f32(float value) { return value; }
inline float to_f32(executor::F16 value) { return executor::to_float(value); }
inline float to_f32(executor::F8E4m3 value) { return executor::to_float(value); }
inline float to_f32(Bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16U); }

/// Rounds to nearest, ties to even.
template <typename T>
T from_f32(float value);
template <>
inline float from_f32(float value) {
  return value;
}
template <>
inline executor::F16 from_f32(float value) {
  return executor::to_f16(value);
}
template <>
inline Bf16 from_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<std::uint16_t>(bits >> 16U | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

/// Calls `work` with a number of the type, one of those that are summed.
template <typename Function>
auto with_summed_type(planner::DType type, const Function& work) {
  switch (type) {
    case planner::DType::F16: return work(executor::F16{});
    case planner::DType::Bf16: return work(Bf16{});
    default: return work(float{});
  }
}

} // namespace mc2::simulated
