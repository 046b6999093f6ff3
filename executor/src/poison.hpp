#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "mc2/planner/units.hpp"

namespace mc2::executor {

/// The bits of one poisoned element: a quiet NaN that no arithmetic produces. An element that still has these bits was
/// not written. i8 has no NaN; its poison is 127, which is enough because runs only copy i8 elements.
[[nodiscard]] inline std::span<const std::byte> poison_of(planner::DType dtype) noexcept {
  static constexpr std::array kF32{std::byte{0xAD}, std::byte{0xDE}, std::byte{0xC0}, std::byte{0x7F}};
  static constexpr std::array kF16{std::byte{0xDE}, std::byte{0x7E}};
  static constexpr std::array kBf16{std::byte{0xDE}, std::byte{0x7F}};
  static constexpr std::array kByte{std::byte{0x7F}};
  switch (dtype) {
    case planner::DType::F32: return kF32;
    case planner::DType::F16: return kF16;
    case planner::DType::I8:
    case planner::DType::F8E4m3: return kByte;
    case planner::DType::Bf16: break;
  }
  return kBf16;
}

} // namespace mc2::executor
