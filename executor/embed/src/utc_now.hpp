#pragma once

#include <ctime>
#include <string>

namespace mc2::embed {

/// Now as ISO 8601 UTC, for the store.
[[nodiscard]] inline std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

} // namespace mc2::embed
