#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/tiles/tile_shape.hpp"

namespace mc2::executor::cuda {

/// In the order in which tiles are multiplied.
struct Tile {
  std::int32_t distance; ///< of the rank that sums it: 0 for the own, 1 for the next
  std::int32_t a_row;    ///< its first, of the whole A
  std::int32_t c_matrix; ///< which of those in TileRun::c
  std::int32_t c_row;    ///< in there
  std::int32_t column;
  std::int32_t index; ///< of those that the rank sums, the same on every rank
};

/// Flags and pieces: [peer][tile that the rank sums]; peers from the next rank on. Flags are 0 between runs.
struct TileRun {
  CUtensorMap a, b;
  CUtensorMap a_bits; ///< A in boxes of kBitRows rows
  int a_row_count = 0;
  /// Each of matrices of as many rows: where what the rank has summed goes, the own first.
  struct Target {
    CUtensorMap bits;  ///< in boxes of kBitRows rows
    CUtensorMap boxes; ///< of kTileRows
  };
  std::array<Target, kMaxCudaRanks> c;
  int c_count = 1; ///< more than one for an all-reduce: everybody's
  const Tile* tiles = nullptr;
  int tile_count = 0;       ///< of all ranks
  int shard_tile_count = 0; ///< of one, at most
  int depth_steps = 0;      ///< kDepth of k each
  int column_count = 0;     ///< n
  int peer_count = 0;
  const std::byte* arrived = nullptr; ///< peers' pieces of what the rank sums
  std::uint32_t* arrived_flags = nullptr;
  std::array<std::byte*, kMaxCudaRanks - 1> sent{}; ///< where each peer has this rank's pieces of what it sums
  std::array<std::uint32_t*, kMaxCudaRanks - 1> sent_flags{};
  std::uint32_t* end_flags = nullptr; ///< by peer: it has stored all that it sums
  std::array<std::uint32_t*, kMaxCudaRanks - 1> sent_end_flags{};
  std::uint32_t* taken = nullptr; ///< tiles that thread blocks have taken; 0 between runs
  std::uint32_t* ended = nullptr; ///< thread blocks that have stored theirs; 0 between runs
  const std::uint32_t* abort = nullptr;
};

using TileKernel = MatmulKernel<TileRun>;

/// The kernel of a type, f16 or bf16, a tile's width and a B of [n, k] or [k, n], ready to be enqueued on the current
/// device. Throws SystemError.
[[nodiscard]] TileKernel tile_kernel_of(bool is_half, int tile_columns, bool b_is_transposed);

/// Enqueues one rank's tiles, by `cta_count` thread blocks of an SM each. Throws SystemError.
void enqueue_tiles(const TileKernel& kernel, const TileRun& run, int cta_count, cudaStream_t stream);

} // namespace mc2::executor::cuda
