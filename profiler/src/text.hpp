#pragma once

#include <cstdio>
#include <string>

namespace mc2::profiler {

/// A number for people: four significant digits, no locale.
[[nodiscard]] inline std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

/// "1.4 %" of a ratio of 0.014.
[[nodiscard]] inline std::string percent_text(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, ratio < 0.1 ? "%.2f %%" : "%.1f %%", ratio * 100);
  return text;
}

} // namespace mc2::profiler
