#include "backends/cuda/tiles/tile_order.hpp"

#include <algorithm>

#include "mc2/planner/tile_waves.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::ceil_div;

constexpr std::size_t kRasterRows = 16; ///< rows of tiles in a group
static_assert(kTileRows == planner::TileWaves::kTileRows);

} // namespace

bool is_dealt(const planner::OpSpec& op) noexcept { return !planner::traits_of(op.kind).has_row_shards; }

std::int64_t summed_rows(const planner::OpSpec& op) noexcept { return is_dealt(op) ? op.m : op.m / op.world_size; }

std::int64_t most_summed_tiles(const StageList& stages, int tile_columns) noexcept {
  const planner::OpSpec& op = stages.op;
  const std::int64_t tiles = ceil_div(summed_rows(op), kTileRows) * ceil_div(op.n, tile_columns);
  if (!is_dealt(op)) return tiles;
  return tiles / op.world_size + static_cast<std::int64_t>(stages.stages.size()); // each block's share is rounded up
}

TileOrder::TileOrder(const StageList& stages, int tile_columns, int cta_count)
    : op_(stages.op), tile_columns_(tile_columns) {
  std::vector<std::int64_t> block_rows;
  for (const Stage& block : stages.stages) block_rows.push_back(block.row_count);
  std::int64_t first_row = 0;
  for (const std::int64_t rows : planner::TileWaves(op_, tile_columns, cta_count).taken_together(block_rows)) {
    blocks_.push_back({first_row, rows});
    first_row += rows;
  }
  if (is_dealt(op_)) deal();
}

/// Orders tiles in groups of rows, column by column in a group, so that tiles that are multiplied at the same time
/// share rows of A and columns of B in the L2 cache.
std::vector<Tile> TileOrder::raster(std::span<const Row> rows) const {
  const std::int64_t columns = ceil_div(op_.n, tile_columns_);
  std::vector<Tile> tiles;
  for (std::size_t group = 0; group < rows.size(); group += kRasterRows) {
    const auto in_group = rows.subspan(group, std::min(kRasterRows, rows.size() - group));
    for (std::int64_t column = 0; column < columns; ++column) {
      for (const Row& row : in_group) {
        tiles.push_back({.distance = row.distance,
                         .a_row = static_cast<std::int32_t>(row.a_row),
                         .c_matrix = 0,
                         .c_row = static_cast<std::int32_t>(row.c_row),
                         .column = static_cast<std::int32_t>(column * tile_columns_),
                         .index = static_cast<std::int32_t>(row.c_row / kTileRows * columns + column)});
      }
    }
  }
  return tiles;
}

/// The tiles that begin in the block's rows of the shards at these distances. The shards' rows alternate, because they
/// need the same columns of B.
std::vector<Tile> TileOrder::shard_tiles(int rank, std::size_t block, int first_distance, int end_distance) const {
  const std::int64_t first_row = blocks_[block].first_row, end_row = first_row + blocks_[block].row_count;
  std::vector<Row> rows;
  for (std::int64_t row = planner::align_up(first_row, std::int64_t{kTileRows}); row < end_row; row += kTileRows) {
    for (int distance = first_distance; distance < end_distance; ++distance)
      rows.push_back(
          {.distance = distance, .a_row = (rank + distance) % op_.world_size * summed_rows(op_) + row, .c_row = row});
  }
  return raster(rows);
}

/// Deals out tiles to ranks where there are no shards. A block is a range of the list of all tiles, in proportion to
/// its rows; blocks of whole rows would each read all of B.
void TileOrder::deal() {
  std::vector<Row> rows;
  for (std::int64_t row = 0; row < op_.m; row += kTileRows) rows.push_back({.distance = 0, .a_row = row, .c_row = row});
  dealt_ = raster(rows);
  std::vector<std::int32_t> counts(static_cast<std::size_t>(op_.world_size)); // next index, by owner
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    for (int owner = 0; owner < op_.world_size; ++owner) {
      const Range part = part_of(owner, block);
      for (Tile& tile : std::span(dealt_).subspan(part.first, part.count))
        tile.index = counts[static_cast<std::size_t>(owner)]++;
    }
  }
}

Range TileOrder::part_of(int owner, std::size_t block) const noexcept {
  const auto place_of = [&](std::int64_t row) { return static_cast<std::int64_t>(dealt_.size()) * row / op_.m; };
  const std::int64_t begin = place_of(blocks_[block].first_row);
  const std::int64_t count = place_of(blocks_[block].first_row + blocks_[block].row_count) - begin;
  return executor::part_of({begin, count}, owner, op_.world_size);
}

std::vector<Tile> TileOrder::dealt_tiles(int rank, std::size_t block, int first_distance, int end_distance) const {
  std::vector<Tile> tiles;
  for (int distance = first_distance; distance < end_distance; ++distance) {
    const Range part = part_of((rank + distance) % op_.world_size, block);
    for (const Tile& tile : std::span(dealt_).subspan(part.first, part.count))
      tiles.emplace_back(tile).distance = distance;
  }
  return tiles;
}

std::vector<Tile> TileOrder::of(int rank) const {
  std::vector<Tile> order;
  const auto add = [&](std::size_t block, int first_distance, int end_distance) {
    const auto tiles = is_dealt(op_) ? dealt_tiles(rank, block, first_distance, end_distance)
                                     : shard_tiles(rank, block, first_distance, end_distance);
    order.insert(order.end(), tiles.begin(), tiles.end());
  };
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    add(block, 1, op_.world_size);
    if (block > 0) add(block - 1, 0, 1);
  }
  add(blocks_.size() - 1, 0, 1);
  return order;
}

} // namespace mc2::executor::cuda
