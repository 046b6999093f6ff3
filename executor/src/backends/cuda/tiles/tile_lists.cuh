#pragma once

#include <cstdint>

#include "backends/cuda/tiles/grouped_kernel.hpp"

// Shared by the kernels that make lists of tiles.
namespace mc2::executor::cuda {

/// Rows of an expert that are contiguous at their source and at their destination.
struct TiledRun {
  std::int64_t from_row, to_row, row_count;
};

__device__ inline std::int64_t row_tiles_of(std::int64_t row_count) { return (row_count + kTileRows - 1) / kTileRows; }

/// The last place whose first number is at most `number`; `firsts` ascends.
__device__ inline int place_of(const std::int32_t* firsts, int count, int number) {
  int low = 0;
  for (int high = count; high - low > 1;) {
    const int middle = (low + high) / 2;
    (firsts[middle] <= number ? low : high) = middle;
  }
  return low;
}

/// Tile `number` of a run. Tiles are ordered by column, then by row, as in tiles_of() in grouped_matmul.cpp.
__device__ inline GroupedTile tile_of(const TiledRun& run, int expert, int number, int tile_columns) {
  const int row_tiles = static_cast<int>(row_tiles_of(run.row_count));
  const std::int64_t row = std::int64_t{number % row_tiles} * kTileRows;
  return {expert, static_cast<std::int32_t>(run.from_row + row), static_cast<std::int32_t>(run.to_row + row),
          static_cast<std::int32_t>(min(std::int64_t{kTileRows}, run.row_count - row)),
          number / row_tiles * tile_columns};
}

} // namespace mc2::executor::cuda
