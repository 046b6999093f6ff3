#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cuda/tiles/tile_kernel.hpp"
#include "mc2/planner/op_spec.hpp"
#include "stage.hpp"

namespace mc2::executor::cuda {

/// Who sums which tiles of a matmul_reduce_scatter or matmul_all_reduce, and in which order each rank multiplies them:
/// block by block, first the tiles that other ranks sum, the next rank's and on; the own tiles of a block come behind
/// the others of the next block, so that what peers have of them has arrived. Blocks of less than a wave of tiles are
/// taken together: their own tiles would wait for what peers have begun a moment before.
class TileOrder {
 public:
  /// @param cta_count thread blocks that multiply: tiles of a wave
  TileOrder(const StageList& stages, int tile_columns, int cta_count);

  /// Of all tiles, as that rank multiplies them; Tile::index is the same on every rank and below most_summed_tiles().
  [[nodiscard]] std::vector<Tile> of(int rank) const;

 private:
  /// A row of tiles.
  struct Row {
    int distance;
    std::int64_t a_row, c_row;
  };
  /// Of dealt_.
  struct Part {
    std::size_t first, count;
  };
  void deal();
  [[nodiscard]] Part part_of(int owner, std::size_t block) const noexcept;
  [[nodiscard]] std::vector<Tile> raster(std::span<const Row> rows) const;
  [[nodiscard]] std::vector<Tile> shard_tiles(int rank, std::size_t block, int first_distance, int end_distance) const;
  [[nodiscard]] std::vector<Tile> dealt_tiles(int rank, std::size_t block, int first_distance, int end_distance) const;

  planner::OpSpec op_;
  int tile_columns_;
  std::vector<Stage> blocks_;
  std::vector<Tile> dealt_; ///< all of is_dealt()
};

/// Whether ranks share the tiles, for sums that all get. Else each sums those of its shard.
[[nodiscard]] bool is_dealt(const planner::OpSpec& op) noexcept;

/// Rows that ranks divide or each has for its own: of C, whose sums they store.
[[nodiscard]] std::int64_t summed_rows(const planner::OpSpec& op) noexcept;

/// Tiles that a rank sums, at most.
[[nodiscard]] std::int64_t most_summed_tiles(const StageList& stages, int tile_columns) noexcept;

} // namespace mc2::executor::cuda
