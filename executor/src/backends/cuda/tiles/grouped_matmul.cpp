#include "backends/cuda/tiles/grouped_matmul.hpp"

#include <algorithm>

#include "backends/cuda/tiles/tensor_map.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::ceil_div;

/// Orders tiles by expert, then by column, then by row: so an expert's B is read once, and its A stays in the L2 cache.
std::vector<GroupedTile> tiles_of(std::span<const ExpertRun> runs, std::int64_t n, int tile_columns) {
  std::vector<GroupedTile> tiles;
  for (const auto& [expert, rows] : runs) {
    for (std::int64_t column = 0; column < n; column += tile_columns) {
      for (std::int64_t row = 0; row < rows.row_count; row += kTileRows)
        tiles.push_back(
            {.expert = expert,
             .a_row = static_cast<std::int32_t>(rows.from_row + row),
             .c_row = static_cast<std::int32_t>(rows.to_row + row),
             .row_count = static_cast<std::int32_t>(std::min<std::int64_t>(kTileRows, rows.row_count - row)),
             .column = static_cast<std::int32_t>(column)});
    }
  }
  return tiles;
}

/// The width of tiles that ends earlier: wide tiles need fewer loads, narrow ones fill the last wave better.
int best_tile_columns(std::span<const ExpertRun> runs, const GroupedShape& shape) {
  std::int64_t row_tiles = 0;
  for (const ExpertRun& run : runs) row_tiles += ceil_div(run.rows.row_count, kTileRows);
  const auto wave_count = [&](int columns) {
    return ceil_div(row_tiles * ceil_div(shape.n, columns), std::max(1, shape.cta_count));
  };
  constexpr double kNarrowCost = 0.56; // time of a narrow tile / time of a wide tile
  const bool is_narrow_better =
      static_cast<double>(wave_count(kNarrowTile)) * kNarrowCost < static_cast<double>(wave_count(kWideTile));
  return is_narrow_better ? kNarrowTile : kWideTile;
}

} // namespace

GroupedMatmul::GroupedMatmul(const GroupedShape& shape, std::span<const ExpertRun> runs)
    : shape_(shape),
      tile_columns_(best_tile_columns(runs, shape)),
      tiles_(tiles_of(runs, shape.n, tile_columns_)),
      kernel_(grouped_kernel_of(shape.is_half, tile_columns_, shape.b_is_transposed)) {
  run_.most_tiles = static_cast<int>(tiles_.size());
  run_.depth_steps = static_cast<int>(ceil_div(shape.k, kDepth));
  run_.column_count = static_cast<int>(shape.n);
}

void GroupedMatmul::reserve(std::int64_t row_count, std::int64_t run_count) {
  const std::int64_t row_tiles = row_count / kTileRows + run_count;
  tiles_.resize(static_cast<std::size_t>(row_tiles * ceil_div(shape_.n, tile_columns_)));
  run_.most_tiles = static_cast<int>(tiles_.size());
}

std::unique_ptr<DeviceMemory> upload_tiles(std::span<GroupedMatmul* const> matmuls, DevicePool& pool) {
  std::vector<GroupedMatmul::Words> words;
  std::vector<GroupedTile> tiles;
  for (const GroupedMatmul* matmul : matmuls) {
    words.push_back({.taken = 0, .tile_count = static_cast<std::int32_t>(matmul->tiles_.size())});
    tiles.insert(tiles.end(), matmul->tiles_.begin(), matmul->tiles_.end());
  }
  const auto word_bytes = std::as_bytes(std::span(words)), tile_bytes = std::as_bytes(std::span(tiles));
  std::vector<std::byte> bytes(word_bytes.begin(), word_bytes.end());
  bytes.insert(bytes.end(), tile_bytes.begin(), tile_bytes.end());
  auto memory = std::make_unique<DeviceMemory>(pool, bytes.size());
  memory->upload(bytes);
  auto* word = reinterpret_cast<GroupedMatmul::Words*>(memory->bytes().data());
  auto* tile = reinterpret_cast<const GroupedTile*>(word + words.size());
  for (GroupedMatmul* matmul : matmuls) {
    matmul->run_.tiles = tile;
    matmul->run_.taken = &word->taken;
    matmul->run_.tile_count = &word->tile_count;
    tile += matmul->tiles_.size();
    ++word;
  }
  return memory;
}

void GroupedMatmul::set_operands(const GemmOperands& operands) {
  operands_ = operands;
  run_.c_first = operands.c;
  run_.bias = operands.bias;
  run_.residual = operands.residual;
  if (tiles_.empty()) return; // then the matrices may be null
  run_.a = tensor_map({operands.a, shape_.a_rows, shape_.k, kTileRows}, shape_.is_half);
  run_.a_bits = tensor_map({operands.a, shape_.a_rows, shape_.k, kBitRows}, shape_.is_half);
  const BoxedMatrix b = shape_.b_is_transposed ? BoxedMatrix{operands.b, shape_.n, shape_.k, kTileRows}
                                               : BoxedMatrix{operands.b, shape_.k, shape_.n, kDepth};
  run_.b = tensor_map(b, shape_.is_half, shape_.expert_count);
  run_.c = tensor_map({operands.c, shape_.c_rows, shape_.n, kTileRows}, shape_.is_half, 1);
}

void GroupedMatmul::enqueue(cudaStream_t stream) const {
  if (!tiles_.empty()) enqueue_grouped(kernel_, run_, shape_.cta_count, stream);
}

} // namespace mc2::executor::cuda
