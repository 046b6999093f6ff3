#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace mc2::profiler {

/// Names a group of ranks: FNV-1a over the text by which the logs of all its ranks name it.
[[nodiscard]] inline std::uint64_t group_name(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return hash;
}

/// The n-th number of splitmix64 from a seed, spread evenly and the same on every machine.
[[nodiscard]] inline std::uint64_t spread_number(std::uint64_t seed, std::uint64_t number) {
  std::uint64_t z = seed + number * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Names the n-th run of a group; never 0. The name is the same in the logs of all its ranks.
[[nodiscard]] inline std::uint64_t event_name(std::uint64_t group, std::uint64_t number) {
  return spread_number(group, number) | 1;
}

/// Gives the runs of one log different event names, although the log may give several runs the same text: an operator
/// of a graph has the same name in every step.
class RunNames {
 public:
  /// Event name of the next run. @param name  group_name() of the run's name, which is the same in all ranks' logs
  /// @param teller  the device whose run it is: each device of a log has runs of the same names
  [[nodiscard]] std::uint64_t next(std::uint64_t name, std::uint64_t teller) {
    const std::uint64_t key = spread_number(name, teller);
    if (counts_.size() == kMaxKept && !counts_.contains(key)) return event_name(name, 0);
    return event_name(name, counts_[key]++);
  }

 private:
  static constexpr std::size_t kMaxKept = std::size_t{1} << 18;
  std::unordered_map<std::uint64_t, std::uint64_t> counts_; ///< runs so far of a name and a teller
};

} // namespace mc2::profiler
