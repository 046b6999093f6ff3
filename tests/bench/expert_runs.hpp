#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cuda/tiles/grouped_matmul.hpp"

namespace mc2::bench {

/// Each expert's rows, one expert's behind the other's, of A as of C. @param rows  of each expert, none perhaps
inline std::vector<executor::cuda::ExpertRun> runs_of(std::span<const std::int64_t> rows) {
  std::vector<executor::cuda::ExpertRun> runs;
  std::int64_t first = 0;
  for (std::size_t expert = 0; expert < rows.size(); first += rows[expert++])
    if (rows[expert] > 0) runs.push_back({static_cast<int>(expert), {first, first, rows[expert]}});
  return runs;
}

} // namespace mc2::bench
