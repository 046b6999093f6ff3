#pragma once

#include <cstdio>
#include <string>

namespace mc2::planner {

/// A number for people: `digits` significant digits, no locale.
[[nodiscard]] inline std::string number_text(double value, int digits = 4) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
  return buffer;
}

/// "12.3 %" of a ratio.
[[nodiscard]] inline std::string percent_text(double ratio) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.1f %%", ratio * 100);
  return buffer;
}

/// Microseconds below 10 ms, milliseconds from there on.
[[nodiscard]] inline std::string time_text(double us) {
  char buffer[64];
  if (us < 10'000)
    std::snprintf(buffer, sizeof buffer, "%.1f us", us);
  else
    std::snprintf(buffer, sizeof buffer, "%.2f ms", us / 1000);
  return buffer;
}

} // namespace mc2::planner
