#pragma once

#include <ctime>
#include <string>

#pragma GCC visibility push(default)

namespace mc2::store {

/// Now as ISO 8601 UTC, which callers hand to what keeps something; the store itself reads no clock.
[[nodiscard]] inline std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

} // namespace mc2::store

#pragma GCC visibility pop
