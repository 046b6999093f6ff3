#pragma once

#include <chrono>
#include <cstdint>

namespace mc2::cli {

/// Whole milliseconds, the rest cut off.
[[nodiscard]] inline std::chrono::milliseconds to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace mc2::cli
