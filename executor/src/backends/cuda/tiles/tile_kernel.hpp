#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/tiles/tile_shape.hpp"

namespace mc2::executor::cuda {

/// A tile of the product; a list of them is in the order in which they are multiplied.
struct Tile {
  std::int32_t distance; ///< distance to the rank that sums the tile: 0 for the own rank, 1 for the next
  std::int32_t a_row;    ///< first row in the whole A
  std::int32_t c_matrix; ///< which matrix of TileRun::c
  std::int32_t c_row;    ///< first row in that matrix
  std::int32_t column;
  std::int32_t index; ///< number among the tiles that the rank sums, the same on every rank
};

/// A run of the kernel. Flags and pieces are [peer][tile that the rank sums], with peers from the next rank on. Flags
/// are 0 between runs.
struct TileRun {
  CUtensorMap a, b;
  CUtensorMap a_bits; ///< A in boxes of kBitRows rows
  int a_row_count = 0;
  /// A destination of the rank's sums: one or several matrices with equally many rows. c has the rank's own first.
  struct Target {
    CUtensorMap bits;  ///< in boxes of kBitRows rows
    CUtensorMap boxes; ///< in boxes of kTileRows rows
  };
  std::array<Target, kMaxCudaRanks> c;
  int c_count = 1; ///< more than one in an all-reduce: the C of every rank
  const Tile* tiles = nullptr;
  int tile_count = 0;       ///< tiles that the rank multiplies, for all ranks
  int shard_tile_count = 0; ///< most tiles that one rank sums
  int depth_steps = 0;      ///< steps along k, of kDepth each
  int column_count = 0;     ///< n
  int peer_count = 0;
  const std::byte* arrived = nullptr; ///< peers' pieces of tiles that this rank sums
  std::uint32_t* arrived_flags = nullptr;
  std::array<std::byte*, kMaxCudaRanks - 1> sent{}; ///< by peer: where it takes this rank's pieces of its tiles
  std::array<std::uint32_t*, kMaxCudaRanks - 1> sent_flags{};
  std::uint32_t* end_flags = nullptr; ///< by peer: whether it has stored all tiles that it sums
  std::array<std::uint32_t*, kMaxCudaRanks - 1> sent_end_flags{};
  std::uint32_t* taken = nullptr; ///< tiles that thread blocks have taken; 0 between runs
  std::uint32_t* ended = nullptr; ///< thread blocks that have stored all their tiles; 0 between runs
  const std::uint32_t* abort = nullptr;
};

using TileKernel = MatmulKernel<TileRun>;

/// The kernel for f16 or bf16, a width of tiles, and a B of [n, k] or [k, n], ready to be enqueued on the current
/// device. Throws SystemError.
[[nodiscard]] TileKernel tile_kernel_of(bool is_half, int tile_columns, bool b_is_transposed);

/// Enqueues one rank's tiles, by at most `cta_count` thread blocks, each of which fills an SM. Throws SystemError.
void enqueue_tiles(const TileKernel& kernel, const TileRun& run, int cta_count, cudaStream_t stream);

} // namespace mc2::executor::cuda
