#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "mc2/executor/buffer.hpp"

namespace mc2::executor {

/// Bytes of one number.
[[nodiscard]] constexpr std::int64_t size_bytes(IndexType type) noexcept { return type == IndexType::I32 ? 4 : 8; }

/// The number at a place of an array. The array may have any alignment.
[[nodiscard]] inline std::int64_t number_at(std::span<const std::byte> numbers, IndexType type,
                                            std::int64_t place) noexcept {
  const auto read = [&]<typename Number>(Number value) {
    std::memcpy(&value, numbers.data() + static_cast<std::size_t>(place) * sizeof value, sizeof value);
    return std::int64_t{value};
  };
  return type == IndexType::I32 ? read(std::int32_t{}) : read(std::int64_t{});
}

} // namespace mc2::executor
