#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cuda/tiles/tile_kernel.hpp"
#include "mc2/planner/op_spec.hpp"
#include "range.hpp"
#include "stage.hpp"

namespace mc2::executor::cuda {

/// Which rank sums which tiles of a matmul_reduce_scatter or matmul_all_reduce, and in which order each rank multiplies
/// tiles. A rank goes block by block and starts a block with the tiles that other ranks sum, from the next rank on. The
/// own tiles of a block come after the other ranks' tiles of the next block, so that the peers' pieces of them have
/// arrived. Blocks of less than a wave of tiles are joined: their own tiles would wait for pieces that peers have begun
/// only a moment before.
class TileOrder {
 public:
  /// @param cta_count thread blocks that multiply, i.e. tiles of a wave
  TileOrder(const StageList& stages, int tile_columns, int cta_count);

  /// All tiles in the order in which `rank` multiplies them. Tile::index is the same on every rank and below
  /// most_summed_tiles().
  [[nodiscard]] std::vector<Tile> of(int rank) const;

 private:
  /// The place of a row of tiles.
  struct Row {
    int distance;
    std::int64_t a_row, c_row;
  };
  void deal();
  /// The tiles of dealt_ that `owner` sums in a block.
  [[nodiscard]] Range part_of(int owner, std::size_t block) const noexcept;
  [[nodiscard]] std::vector<Tile> raster(std::span<const Row> rows) const;
  [[nodiscard]] std::vector<Tile> shard_tiles(int rank, std::size_t block, int first_distance, int end_distance) const;
  [[nodiscard]] std::vector<Tile> dealt_tiles(int rank, std::size_t block, int first_distance, int end_distance) const;

  planner::OpSpec op_;
  int tile_columns_;
  std::vector<Stage> blocks_;
  std::vector<Tile> dealt_; ///< all tiles if is_dealt()
};

/// Whether the ranks share all tiles, because all get the sums. Otherwise each rank sums the tiles of its shard.
[[nodiscard]] bool is_dealt(const planner::OpSpec& op) noexcept;

/// The rows of C whose tiles are summed: all rows if is_dealt(), else those of a rank's shard.
[[nodiscard]] std::int64_t summed_rows(const planner::OpSpec& op) noexcept;

/// Most tiles that a rank sums.
[[nodiscard]] std::int64_t most_summed_tiles(const StageList& stages, int tile_columns) noexcept;

} // namespace mc2::executor::cuda
