#pragma once

#include <chrono>
#include <concepts>
#include <string>

/// Words of messages.
namespace mc2::executor {

/// "rank 2".
[[nodiscard]] std::string rank_text(std::integral auto rank) { return "rank " + std::to_string(rank); }

/// "1500 ms".
[[nodiscard]] inline std::string milliseconds_text(std::chrono::milliseconds time) {
  return std::to_string(time.count()) + " ms";
}

} // namespace mc2::executor
