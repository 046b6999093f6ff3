#include "backends/cuda/tile_reduce_scatter.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "backends/cuda/check.hpp"
#include "backends/cuda/driver.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::ceil_div;
using planner::Error;
using planner::ErrorCode;

constexpr std::int64_t kRasterRows = 16; ///< of tiles
constexpr std::int64_t kRowMultiple = 8; ///< elements in 16 bytes

std::int64_t shard_tile_count(const StageList& stages) {
  std::int64_t rows = 0;
  for (const Stage& block : stages.stages) rows += ceil_div(block.row_count, kTileRows);
  return rows * ceil_div(stages.op.n, kTileColumns);
}

/// A rank's memory: pieces that arrive, their flags, and how many tiles have been taken.
struct Layout {
  std::int64_t tile_count;
  std::int64_t peer_count;

  explicit Layout(const StageList& stages) : tile_count(shard_tile_count(stages)), peer_count(stages.op.world_size - 1) {}
  [[nodiscard]] std::int64_t piece(std::int64_t peer) const { return peer * tile_count * kTileBytes; }
  [[nodiscard]] std::int64_t flags(std::int64_t peer) const {
    return piece(peer_count) + peer * tile_count * std::int64_t{sizeof(std::uint32_t)};
  }
  [[nodiscard]] std::int64_t taken() const { return flags(peer_count); }
  [[nodiscard]] std::int64_t bytes() const { return taken() + std::int64_t{sizeof(std::uint32_t)}; }
};

/// Row-major matrices of 2-byte elements, one behind the other, in boxes of `box_rows` rows.
struct Matrix {
  const std::byte* address;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t box_rows;
};

CUtensorMap tensor_map(const Matrix& matrix, bool is_half, std::optional<int> matrix_count = std::nullopt) {
  static const auto kEncode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(driver_function("cuTensorMapEncodeTiled"));
  const auto columns = static_cast<cuuint64_t>(matrix.columns), rows = static_cast<cuuint64_t>(matrix.rows);
  const std::array<cuuint64_t, 3> sizes{columns, rows, static_cast<cuuint64_t>(matrix_count.value_or(1))};
  const std::array<cuuint64_t, 2> pitch_bytes{columns * 2, rows * columns * 2};
  const std::array<cuuint32_t, 3> box{kBoxColumns, static_cast<cuuint32_t>(matrix.box_rows), 1};
  const std::array<cuuint32_t, 3> steps{1, 1, 1};
  CUtensorMap map;
  check(kEncode(&map, is_half ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, matrix_count ? 3 : 2,
                const_cast<std::byte*>(matrix.address), sizes.data(), pitch_bytes.data(), box.data(), steps.data(),
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  return map;
}

std::uint32_t* flags_at(std::byte* address) { return reinterpret_cast<std::uint32_t*>(address); }

} // namespace

planner::Result<void> check_tile_shape(const planner::OpSpec& op) {
  if (op.dtype != planner::DType::Bf16 && op.dtype != planner::DType::F16) {
    return Error{ErrorCode::Unsupported, "variant",
                 "tile_store takes bf16 and f16, not " + std::string(to_string(op.dtype)) + "; choose copy_engine"};
  }
  if (op.n % kRowMultiple != 0 || op.k % kRowMultiple != 0) {
    const bool is_n = op.n % kRowMultiple != 0;
    return Error{ErrorCode::Unsupported, "variant",
                 std::string("tile_store needs n and k to be multiples of 8, and ") + (is_n ? "n" : "k") + " is " +
                     std::to_string(is_n ? op.n : op.k) + "; choose copy_engine"};
  }
  return {};
}

std::int64_t tile_memory_bytes(const StageList& stages) { return Layout(stages).bytes(); }

TileReduceScatter::TileReduceScatter(const StageList& stages, int rank, bool b_is_transposed, int cta_count,
                                     std::span<std::byte* const> memory, const std::uint32_t* abort, DevicePool& pool)
    : list_(stages), rank_(rank), b_is_transposed_(b_is_transposed), cta_count_(cta_count),
      kernel_(tile_kernel_of(stages.op.dtype == planner::DType::F16, b_is_transposed)) {
  const Layout layout(stages);
  const int world_size = stages.op.world_size;
  run_.shard_tile_count = static_cast<int>(layout.tile_count);
  run_.depth_steps = static_cast<int>(ceil_div(stages.op.k, kDepth));
  run_.column_count = static_cast<int>(stages.op.n);
  run_.peer_count = world_size - 1;
  std::byte* const own = memory[static_cast<std::size_t>(rank)];
  run_.arrived = own;
  run_.arrived_flags = flags_at(own + layout.flags(0));
  run_.taken = flags_at(own + layout.taken());
  run_.abort = abort;
  for (int distance = 1; distance < world_size; ++distance) {
    const auto index = static_cast<std::size_t>(distance - 1);
    const int from_there = world_size - 1 - distance; // this rank's place among that one's peers
    std::byte* const peer = memory[static_cast<std::size_t>((rank + distance) % world_size)];
    run_.sent[index] = peer + layout.piece(from_there);
    run_.sent_flags[index] = flags_at(peer + layout.flags(from_there));
  }
  upload_tiles(pool);
}

/// Of one shard; in groups of rows, so that the tiles of a time share rows of A and columns of B in the L2 cache. A tile that sticks out
/// of its block has rows of the next one, which that block's own tiles give the same bits: every rank cuts alike.
std::vector<Tile> TileReduceScatter::block_tiles(std::size_t block, std::int32_t first_index) const {
  const Stage& rows = list_.stages[block];
  const std::int64_t end = rows.first_row + rows.row_count;
  std::vector<Tile> tiles;
  for (std::int64_t group = rows.first_row; group < end; group += kRasterRows * kTileRows) {
    const std::int64_t group_end = std::min(end, group + kRasterRows * kTileRows);
    for (std::int64_t column = 0; column < list_.op.n; column += kTileColumns) {
      for (std::int64_t row = group; row < group_end; row += kTileRows) {
        tiles.push_back({.distance = 0,
                         .a_row = 0,
                         .c_matrix = 0,
                         .c_row = static_cast<std::int32_t>(row),
                         .column = static_cast<std::int32_t>(column),
                         .index = first_index + static_cast<std::int32_t>(tiles.size())});
      }
    }
  }
  return tiles;
}

std::vector<Tile> TileReduceScatter::all_tiles() const {
  const std::int64_t shard_rows = list_.op.m / list_.op.world_size;
  std::vector<Tile> order;
  const auto add = [&](int distance, std::vector<Tile> tiles) {
    const std::int64_t shard_first_row = (rank_ + distance) % list_.op.world_size * shard_rows;
    for (Tile& tile : tiles) {
      tile.distance = distance;
      tile.a_row = static_cast<std::int32_t>(shard_first_row + tile.c_row);
    }
    order.insert(order.end(), tiles.begin(), tiles.end());
  };
  std::vector<Tile> previous;
  std::int32_t first_index = 0;
  for (std::size_t block = 0; block < list_.stages.size(); ++block) {
    std::vector<Tile> tiles = block_tiles(block, first_index);
    first_index += static_cast<std::int32_t>(tiles.size());
    for (int distance = 1; distance < list_.op.world_size; ++distance) add(distance, tiles);
    add(0, std::exchange(previous, std::move(tiles))); // what peers have of them is on its way meanwhile
  }
  add(0, previous);
  return order;
}

void TileReduceScatter::upload_tiles(DevicePool& pool) {
  std::vector<Tile> tiles = all_tiles();
  const std::size_t count = tiles.size();
  for (std::size_t i = 0; i < count; ++i) {
    Tile product = tiles[i];
    product.c_matrix = (rank_ + product.distance) % list_.op.world_size;
    product.distance = 0;
    tiles.push_back(product);
  }
  tiles_ = std::make_unique<DeviceMemory>(pool, tiles.size() * sizeof(Tile));
  tiles_->upload(std::as_bytes(std::span(tiles)));
  run_.tile_count = static_cast<int>(count);
  run_.tiles = reinterpret_cast<const Tile*>(tiles_->bytes().data());
  products_run_ = run_;
  products_run_.tiles += count;
  products_run_.peer_count = 0;
}

void TileReduceScatter::bind(const Matrices& matrices) {
  const planner::OpSpec& op = list_.op;
  const bool is_half = op.dtype == planner::DType::F16;
  const std::int64_t shard_rows = op.m / op.world_size;
  products_run_.a = run_.a = tensor_map({matrices.a, op.m, op.k, kTileRows}, is_half);
  products_run_.b = run_.b =
      tensor_map(b_is_transposed_ ? Matrix{matrices.b, op.n, op.k, kTileRows} : Matrix{matrices.b, op.k, op.n, kDepth}, is_half);
  run_.c = tensor_map({matrices.c, shard_rows, op.n, kTileRows}, is_half, 1);
  products_run_.c = tensor_map({matrices.products, shard_rows, op.n, kTileRows}, is_half, op.world_size);
}

void TileReduceScatter::enqueue(cudaStream_t stream) const { enqueue_tiles(kernel_, run_, cta_count_, stream); }

void TileReduceScatter::enqueue_products(cudaStream_t stream) const { enqueue_tiles(kernel_, products_run_, cta_count_, stream); }

} // namespace mc2::executor::cuda
