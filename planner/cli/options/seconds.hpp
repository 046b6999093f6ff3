#pragma once

#include <chrono>
#include <cstdint>

namespace mc2::cli {

/// Whole milliseconds, the rest cut off.
[[nodiscard]] inline std::chrono::milliseconds to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

} // namespace mc2::cli
