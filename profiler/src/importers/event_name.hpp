#pragma once

#include <cstdint>
#include <string_view>

namespace mc2::profiler {

/// Names the n-th run of a group of ranks, the same in the logs of all of them; never 0. FNV-1a over the group, then
/// splitmix64, whose results are spread evenly.
[[nodiscard]] inline std::uint64_t event_name(std::string_view group, std::uint64_t number) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : group) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  std::uint64_t z = hash + number * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return (z ^ (z >> 31)) | 1;
}

} // namespace mc2::profiler
