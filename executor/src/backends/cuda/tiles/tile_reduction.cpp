#include "backends/cuda/tiles/tile_reduction.hpp"

#include <memory>
#include <string>

#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/tiles/tensor_map.hpp"
#include "backends/cuda/tiles/tile_order.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::cuda {
namespace {

using planner::ceil_div;

/// The layout of a rank's memory: pieces that arrive, their flags, the end flags, the number of tiles that have been
/// taken, and the number of thread blocks that have ended.
struct Layout {
  std::int64_t tile_count;
  std::int64_t piece_bytes;
  std::int64_t peer_count;

  Layout(const StageList& stages, int tile_columns)
      : tile_count(most_summed_tiles(stages, tile_columns)),
        piece_bytes(tile_bytes(tile_columns)),
        peer_count(stages.op.world_size - 1) {}
  [[nodiscard]] std::int64_t piece(std::int64_t peer) const { return peer * tile_count * piece_bytes; }
  [[nodiscard]] std::int64_t flags(std::int64_t peer) const { return word(peer * tile_count); }
  [[nodiscard]] std::int64_t end_flag(std::int64_t peer) const { return word(peer_count * tile_count + peer); }
  [[nodiscard]] std::int64_t taken() const { return end_flag(peer_count); }
  [[nodiscard]] std::int64_t ended() const { return end_flag(peer_count + 1); }
  [[nodiscard]] std::int64_t bytes() const { return end_flag(peer_count + 2); }

 private:
  [[nodiscard]] std::int64_t word(std::int64_t index) const {
    return piece(peer_count) + index * std::int64_t{sizeof(std::uint32_t)};
  }
};

std::uint32_t* flags_at(std::byte* address) { return reinterpret_cast<std::uint32_t*>(address); }

} // namespace

Result<void> check_tile_shape(const planner::OpSpec& op) {
  if (op.dtype != planner::DType::Bf16 && op.dtype != planner::DType::F16) {
    return Error{ErrorCode::Unsupported, "variant",
                 "tile_store takes bf16 and f16, not " + std::string(to_string(op.dtype)) + "; choose another variant"};
  }
  if (op.n % kRowMultiple != 0 || op.k % kRowMultiple != 0) {
    const bool is_n = op.n % kRowMultiple != 0;
    return Error{ErrorCode::Unsupported, "variant",
                 std::string("tile_store needs n and k to be multiples of 8, and ") + (is_n ? "n" : "k") + " is " +
                     std::to_string(is_n ? op.n : op.k) + "; choose another variant"};
  }
  return {};
}

std::int64_t tile_memory_bytes(const StageList& stages, int tile_columns) {
  return Layout(stages, tile_columns).bytes();
}

std::int64_t tile_list_bytes(const StageList& stages, int tile_columns) {
  constexpr std::int64_t kLists = 2; // one for the run, one for the products alone
  return kLists * stages.op.world_size * most_summed_tiles(stages, tile_columns) *
         static_cast<std::int64_t>(sizeof(Tile));
}

TileReduction::TileReduction(const StageList& stages, int rank, const Options& options,
                             std::span<std::byte* const> memory, const std::uint32_t* abort, DevicePool& pool)
    : op_(stages.op),
      rank_(rank),
      options_(options),
      kernel_(tile_kernel_of(stages.op.dtype == planner::DType::F16, options.tile_columns, options.b_is_transposed)) {
  const Layout layout(stages, options.tile_columns);
  const int world_size = stages.op.world_size;
  run_.shard_tile_count = static_cast<int>(layout.tile_count);
  run_.depth_steps = static_cast<int>(ceil_div(stages.op.k, kDepth));
  run_.column_count = static_cast<int>(stages.op.n);
  run_.peer_count = world_size - 1;
  std::byte* const own = memory[static_cast<std::size_t>(rank)];
  run_.arrived = own;
  run_.arrived_flags = flags_at(own + layout.flags(0));
  run_.end_flags = flags_at(own + layout.end_flag(0));
  run_.taken = flags_at(own + layout.taken());
  run_.ended = flags_at(own + layout.ended());
  run_.abort = abort;
  for (int distance = 1; distance < world_size; ++distance) {
    const auto index = static_cast<std::size_t>(distance - 1);
    const int from_there = world_size - 1 - distance; // this rank's place among that rank's peers
    std::byte* const peer = memory[static_cast<std::size_t>((rank + distance) % world_size)];
    run_.sent[index] = peer + layout.piece(from_there);
    run_.sent_flags[index] = flags_at(peer + layout.flags(from_there));
    run_.sent_end_flags[index] = flags_at(peer + layout.end_flag(from_there));
  }
  upload_tiles(TileOrder(stages, options.tile_columns, options.cta_count).of(rank), pool);
}

/// Uploads the run's tiles and, behind them, those of the products alone.
void TileReduction::upload_tiles(std::vector<Tile> tiles, DevicePool& pool) {
  const std::size_t count = tiles.size();
  for (std::size_t i = 0; i < count; ++i) {
    Tile product = tiles[i];
    product.c_matrix = is_dealt(op_) ? 0 : (rank_ + product.distance) % op_.world_size;
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

void TileReduction::bind(const Matrices& matrices) {
  const bool is_half = op_.dtype == planner::DType::F16;
  products_run_.a = run_.a = tensor_map({matrices.a, op_.m, op_.k, kTileRows}, is_half);
  products_run_.a_bits = run_.a_bits = tensor_map({matrices.a, op_.m, op_.k, kBitRows}, is_half);
  products_run_.a_row_count = run_.a_row_count = static_cast<int>(op_.m);
  products_run_.b = run_.b = tensor_map(options_.b_is_transposed ? BoxedMatrix{matrices.b, op_.n, op_.k, kTileRows}
                                                                 : BoxedMatrix{matrices.b, op_.k, op_.n, kDepth},
                                        is_half);
  const auto target = [&](const std::byte* address, int count) {
    const BoxedMatrix bits{address, summed_rows(op_), op_.n, kBitRows},
        boxes{address, summed_rows(op_), op_.n, kTileRows};
    return TileRun::Target{tensor_map(bits, is_half, count), tensor_map(boxes, is_half, count)};
  };
  products_run_.c[0] = target(matrices.products, is_dealt(op_) ? 1 : op_.world_size);
  run_.c_count = is_dealt(op_) ? op_.world_size : 1;
  for (int distance = 0; distance < run_.c_count; ++distance)
    run_.c[static_cast<std::size_t>(distance)] =
        target(matrices.c[static_cast<std::size_t>((rank_ + distance) % op_.world_size)], 1);
}

void TileReduction::enqueue(cudaStream_t stream) const { enqueue_tiles(kernel_, run_, options_.cta_count, stream); }

void TileReduction::enqueue_products(cudaStream_t stream) const {
  enqueue_tiles(kernel_, products_run_, options_.cta_count, stream);
}

} // namespace mc2::executor::cuda
