#include "backends/cuda/tile_reduce_scatter.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "backends/cuda/check.hpp"
#include "backends/cuda/driver.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::ceil_div;
using planner::Error;
using planner::ErrorCode;

constexpr std::int64_t kRasterRows = 16; ///< of tiles, which share columns of B in the L2 cache
constexpr std::int64_t kRowMultiple = 8; ///< elements in 16 bytes

std::int64_t shard_tile_count(const StageList& stages) {
  std::int64_t rows = 0;
  for (const Stage& block : stages.stages) rows += ceil_div(block.row_count, kTileRows);
  return rows * ceil_div(stages.op.n, kTileColumns);
}

/// A rank's memory: pieces that arrive, their words, the words of those that leave, and those themselves.
struct Layout {
  std::int64_t tile_count;
  std::int64_t peer_count;

  explicit Layout(const StageList& stages) : tile_count(shard_tile_count(stages)), peer_count(stages.op.world_size - 1) {}
  [[nodiscard]] std::int64_t pieces_bytes() const { return peer_count * tile_count * kTileBytes; }
  [[nodiscard]] std::int64_t words_bytes() const {
    constexpr std::int64_t kLine = 128;
    return ceil_div(peer_count * tile_count * std::int64_t{sizeof(std::uint32_t)}, kLine) * kLine;
  }
  [[nodiscard]] std::int64_t piece(std::int64_t peer, std::int64_t tile) const { return (peer * tile_count + tile) * kTileBytes; }
  [[nodiscard]] std::int64_t flag(std::int64_t peer, std::int64_t tile) const {
    return pieces_bytes() + (peer * tile_count + tile) * std::int64_t{sizeof(std::uint32_t)};
  }
  [[nodiscard]] std::int64_t counter(std::int64_t peer, std::int64_t tile) const { return flag(peer, tile) + words_bytes(); }
  [[nodiscard]] std::int64_t outgoing(std::int64_t peer, std::int64_t tile) const {
    return pieces_bytes() + 2 * words_bytes() + piece(peer, tile);
  }
};

/// A row-major matrix of 2-byte elements in boxes of `box_rows` rows.
CUtensorMap matrix(const std::byte* address, std::int64_t rows, std::int64_t columns, std::int64_t box_rows, bool is_half) {
  static const auto kEncode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(driver_function("cuTensorMapEncodeTiled"));
  const std::array<cuuint64_t, 2> sizes{static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const std::array<cuuint64_t, 1> pitch_bytes{sizes[0] * 2};
  const std::array<cuuint32_t, 2> box{kBoxColumns, static_cast<cuuint32_t>(box_rows)};
  const std::array<cuuint32_t, 2> steps{1, 1};
  CUtensorMap map;
  check(kEncode(&map, is_half ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                const_cast<std::byte*>(address), sizes.data(), pitch_bytes.data(), box.data(), steps.data(),
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  return map;
}

std::uint32_t* word(std::byte* address) { return reinterpret_cast<std::uint32_t*>(address); }
CUdeviceptr device_address(const std::byte* address) { return reinterpret_cast<CUdeviceptr>(address); }

} // namespace

planner::Result<void> check_tile_shape(const planner::OpSpec& op) {
  if (op.dtype != planner::DType::Bf16 && op.dtype != planner::DType::F16) {
    return Error{ErrorCode::Unsupported, "variant",
                 "tile_store and tile_copy take bf16 and f16, not " + std::string(to_string(op.dtype)) + "; choose copy_engine"};
  }
  if (op.n % kRowMultiple != 0 || op.k % kRowMultiple != 0) {
    const bool is_n = op.n % kRowMultiple != 0;
    return Error{ErrorCode::Unsupported, "variant",
                 std::string("tile_store and tile_copy need n and k to be multiples of 8, and ") + (is_n ? "n" : "k") + " is " +
                     std::to_string(is_n ? op.n : op.k) + "; choose copy_engine"};
  }
  return {};
}

std::int64_t tile_memory_bytes(const StageList& stages, Handover handover) {
  const Layout layout(stages);
  return layout.outgoing(0, 0) + (handover == Handover::Copy ? layout.pieces_bytes() : 0);
}

TileReduceScatter::TileReduceScatter(const StageList& stages, int rank, Handover handover, bool b_is_transposed, int cta_count,
                                     std::span<std::byte* const> memory, const std::uint32_t* abort, DevicePool& pool)
    : list_(stages), rank_(rank), handover_(handover), b_is_transposed_(b_is_transposed), cta_count_(cta_count),
      memory_(memory.begin(), memory.end()) {
  const Layout layout(stages);
  const int world_size = stages.op.world_size;
  std::byte* const own = memory_[static_cast<std::size_t>(rank)];
  run_.shard_tile_count = static_cast<int>(layout.tile_count);
  run_.depth_steps = static_cast<int>(ceil_div(stages.op.k, kDepth));
  run_.column_count = static_cast<int>(stages.op.n);
  run_.peer_count = world_size - 1;
  run_.counts_tiles = handover == Handover::Copy;
  run_.arrived = own;
  run_.arrived_flags = word(own + layout.flag(0, 0));
  run_.abort = abort;
  for (int distance = 1; distance < world_size; ++distance) {
    const auto index = static_cast<std::size_t>(distance - 1);
    const int from_there = world_size - 1 - distance; // this rank's place among that one's peers
    std::byte* const peer = memory_[static_cast<std::size_t>((rank + distance) % world_size)];
    const bool copies = handover == Handover::Copy;
    run_.outgoing[index] = copies ? own + layout.outgoing(distance - 1, 0) : peer + layout.piece(from_there, 0);
    run_.finished[index] = word(copies ? own + layout.counter(distance - 1, 0) : peer + layout.flag(from_there, 0));
  }
  order_tiles(pool);
}

/// Of one shard, block after block. A tile that sticks out of its block has rows of the next one, which that block's own tiles give
/// the same bits: every rank cuts alike, so pieces and sums have them, too.
std::vector<Tile> TileReduceScatter::shard_tiles() const {
  std::vector<Tile> tiles;
  for (const Stage& block : list_.stages) {
    const std::int64_t end = block.first_row + block.row_count;
    for (std::int64_t group = block.first_row; group < end; group += kRasterRows * kTileRows) {
      const std::int64_t group_end = std::min(end, group + kRasterRows * kTileRows);
      for (std::int64_t column = 0; column < list_.op.n; column += kTileColumns) {
        for (std::int64_t row = group; row < group_end; row += kTileRows) {
          tiles.push_back({.distance = 0,
                           .a_row = 0,
                           .c_row = static_cast<std::int32_t>(row),
                           .column = static_cast<std::int32_t>(column),
                           .index = static_cast<std::int32_t>(tiles.size()),
                           .word = static_cast<std::int32_t>(tiles.size())});
        }
      }
    }
  }
  return tiles;
}

/// A block into chunks of much the same size.
void TileReduceScatter::divide(std::int64_t first_tile, std::int64_t tile_count) {
  const std::int64_t count = handover_ == Handover::Copy ? ceil_div(tile_count, kTilesPerCopy) : 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = i * tile_count / count;
    chunks_.push_back({first_tile + first, (i + 1) * tile_count / count - first});
  }
}

void TileReduceScatter::order_tiles(DevicePool& pool) {
  const std::int64_t shard_rows = list_.op.m / list_.op.world_size;
  const std::int64_t tiles_across = ceil_div(list_.op.n, kTileColumns);
  const std::vector<Tile> shard = shard_tiles();
  std::int64_t first = 0;
  for (const Stage& block : list_.stages) {
    const std::int64_t count = ceil_div(block.row_count, kTileRows) * tiles_across;
    divide(first, count);
    first += count;
  }
  std::vector<Tile> order;
  const auto add = [&](int distance, const Chunk& chunk) {
    const std::int64_t shard_first_row = (rank_ + distance) % list_.op.world_size * shard_rows;
    for (std::int64_t i = chunk.first_tile; i < chunk.first_tile + chunk.tile_count; ++i) {
      Tile tile = shard[static_cast<std::size_t>(i)];
      tile.distance = distance;
      tile.a_row = static_cast<std::int32_t>(shard_first_row + tile.c_row);
      if (handover_ == Handover::Copy) tile.word = static_cast<std::int32_t>(chunk.first_tile);
      order.push_back(tile);
    }
  };
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    for (int distance = 1; distance < list_.op.world_size; ++distance) add(distance, chunks_[i]);
    if (i > 0) add(0, chunks_[i - 1]); // what peers have of it is on its way meanwhile
  }
  add(0, chunks_.back());
  tiles_ = std::make_unique<DeviceMemory>(pool, rank_, order.size() * sizeof(Tile));
  tiles_->upload(std::as_bytes(std::span(order)));
  run_.tiles = reinterpret_cast<const Tile*>(tiles_->bytes().data());
  run_.tile_count = static_cast<int>(order.size());
}

void TileReduceScatter::bind(const Matrices& matrices) {
  const planner::OpSpec& op = list_.op;
  const bool is_half = op.dtype == planner::DType::F16;
  run_.a = matrix(matrices.a, op.m, op.k, kTileRows, is_half);
  run_.b = b_is_transposed_ ? matrix(matrices.b, op.n, op.k, kTileRows, is_half) : matrix(matrices.b, op.k, op.n, kDepth, is_half);
  run_.c = matrix(matrices.c, op.m / op.world_size, op.n, kTileRows, is_half);
}

void TileReduceScatter::enqueue_reset(cudaStream_t stream) const {
  const Layout layout(list_);
  std::byte* const own = memory_[static_cast<std::size_t>(rank_)];
  MC2_CUDA(cudaMemsetAsync(own + layout.flag(0, 0), 0, static_cast<std::size_t>(2 * layout.words_bytes()), stream));
}

void TileReduceScatter::enqueue(cudaStream_t compute, cudaStream_t communication) const {
  if (handover_ == Handover::Copy) enqueue_copies(communication);
  enqueue_tiles(run_, list_.op.dtype == planner::DType::F16, b_is_transposed_, cta_count_, compute);
}

void TileReduceScatter::enqueue_copies(cudaStream_t stream) const {
  static const auto kWait = reinterpret_cast<decltype(&cuStreamWaitValue32)>(driver_function("cuStreamWaitValue32"));
  static const auto kWrite = reinterpret_cast<decltype(&cuStreamWriteValue32)>(driver_function("cuStreamWriteValue32"));
  const Layout layout(list_);
  const int world_size = list_.op.world_size;
  const std::byte* const own = memory_[static_cast<std::size_t>(rank_)];
  for (const Chunk& chunk : chunks_) {
    for (int distance = 1; distance < world_size; ++distance) {
      const int from_there = world_size - 1 - distance; // this rank's place among that one's peers
      std::byte* const peer = memory_[static_cast<std::size_t>((rank_ + distance) % world_size)];
      check(kWait(stream, device_address(own + layout.counter(distance - 1, chunk.first_tile)),
                         static_cast<cuuint32_t>(chunk.tile_count), CU_STREAM_WAIT_VALUE_GEQ),
                   "cuStreamWaitValue32");
      MC2_CUDA(cudaMemcpyAsync(peer + layout.piece(from_there, chunk.first_tile), own + layout.outgoing(distance - 1, chunk.first_tile),
                               static_cast<std::size_t>(chunk.tile_count * kTileBytes), cudaMemcpyDefault, stream));
      check(kWrite(stream, device_address(peer + layout.flag(from_there, chunk.first_tile)), 1, CU_STREAM_WRITE_VALUE_DEFAULT),
                   "cuStreamWriteValue32");
    }
  }
}

} // namespace mc2::executor::cuda
