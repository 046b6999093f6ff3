#pragma once

#include <unistd.h>

#include <array>
#include <chrono>
#include <concepts>
#include <string>

/// Words of messages.
namespace mc2::executor {

/// "rank 2".
[[nodiscard]] std::string rank_text(std::integral auto rank) { return "rank " + std::to_string(rank); }

/// The name that this host gives itself, or "unknown host".
[[nodiscard]] inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

/// "1500 ms".
[[nodiscard]] inline std::string milliseconds_text(std::chrono::milliseconds time) {
  return std::to_string(time.count()) + " ms";
}

} // namespace mc2::executor
