#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>

namespace mc2::cli {

/// Whole milliseconds, rounded up: a short time is not none.
[[nodiscard]] inline std::chrono::milliseconds to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

} // namespace mc2::cli
