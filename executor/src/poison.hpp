#pragma once

#include <cstdint>

#include "bf16.hpp"

namespace mc2::executor {

/// Bits of quiet NaNs that no arithmetic produces: an element that still has them was never written.
inline constexpr std::uint32_t kF32Poison = 0x7FC0DEADU;
inline constexpr Bf16 kBf16Poison = 0x7FDEU;

} // namespace mc2::executor
