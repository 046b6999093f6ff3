#pragma once

#include "bf16.hpp"
#include "f16.hpp"

namespace mc2::executor {

/// Convert an element to f32, in which sums accumulate, and back.
[[nodiscard]] inline float load(float value) noexcept { return value; }
[[nodiscard]] inline float load(Bf16 value) noexcept { return to_float(value); }
[[nodiscard]] inline float load(F16 value) noexcept { return to_float(value); }
inline void store(float value, float& result) noexcept { result = value; }
inline void store(float value, Bf16& result) noexcept { result = to_bf16(value); }
inline void store(float value, F16& result) noexcept { result = to_f16(value); }

} // namespace mc2::executor
