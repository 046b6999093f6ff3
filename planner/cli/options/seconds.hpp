#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>

namespace mc2::cli {

/// Whole milliseconds, rounded up: a short time is not none.
[[nodiscard]] inline std::chrono::milliseconds to_ms(double seconds) {
  constexpr double kRounding = 1e-6; // 1.1 s are 1100.0000000000002 ms
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000 - kRounding)));
}

} // namespace mc2::cli
