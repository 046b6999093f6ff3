#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cuda/tiles/grouped_matmul.hpp"

namespace mc2::bench {

/// The runs of rows of each expert, which follow one another in A and in C alike. @param rows  number of rows of each
/// expert, may be 0
inline std::vector<executor::cuda::ExpertRun> runs_of(std::span<const std::int64_t> rows) {
  std::vector<executor::cuda::ExpertRun> runs;
  std::int64_t first = 0;
  for (std::size_t expert = 0; expert < rows.size(); first += rows[expert++])
    if (rows[expert] > 0) runs.push_back({static_cast<int>(expert), {first, first, rows[expert]}});
  return runs;
}

} // namespace mc2::bench
