#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace mc2::testing {

/// Rows from each rank to each, [from, to]: between 0 and `most`, half of them 0, no rank without any row in either
/// direction.
inline std::vector<std::int64_t> skewed_counts(int ranks, std::int64_t most, std::mt19937& random) {
  std::vector<std::int64_t> counts;
  for (int i = 0; i < ranks * ranks; ++i)
    counts.push_back(random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<unsigned>(most + 1)));
  for (int rank = 0; rank < ranks; ++rank)
    counts[static_cast<std::size_t>(rank * ranks + (rank + 1) % ranks)] += most / 2 + 1;
  for (std::int64_t& count : counts) count = std::min(count, most);
  return counts;
}

} // namespace mc2::testing
