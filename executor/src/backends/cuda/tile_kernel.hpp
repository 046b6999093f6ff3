#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/direct.hpp"

namespace mc2::executor::cuda {

/// What one thread block multiplies at a time, and how it travels: as the kernel holds it in shared memory.
inline constexpr int kTileRows = 128;
inline constexpr int kTileColumns = 256;
inline constexpr int kTileBytes = kTileRows * kTileColumns * 2; ///< bf16, f16
/// A tile's boxes, as CUtensorMap counts them, in elements: 128 bytes wide, which is what its swizzle takes.
inline constexpr int kBoxColumns = 64;
inline constexpr int kDepth = 64; ///< of A and B that is loaded at a time

/// In the order in which tiles are multiplied.
struct Tile {
  std::int32_t distance; ///< of the rank that gets it: 0 for the own, 1 for the next
  std::int32_t a_row;    ///< its first, of the whole A
  std::int32_t c_matrix; ///< which of TileRun::c
  std::int32_t c_row;    ///< in there
  std::int32_t column;
  std::int32_t index; ///< of the shard's tiles, the same on every rank
};

/// Flags and pieces: [peer][tile of a shard]; peers from the next rank on. Flags are 0 between runs.
struct TileRun {
  CUtensorMap a, b;
  CUtensorMap c; ///< matrices of as many rows: the shard, or the shards' pieces
  const Tile* tiles = nullptr;
  int tile_count = 0;       ///< of all shards
  int shard_tile_count = 0; ///< of one
  int depth_steps = 0;      ///< kDepth of k each
  int column_count = 0;     ///< n
  int peer_count = 0;
  const std::byte* arrived = nullptr; ///< peers' pieces of the own shard
  std::uint32_t* arrived_flags = nullptr;
  std::array<std::byte*, kMaxCudaRanks - 1> sent{}; ///< where each peer has this rank's piece of its shard
  std::array<std::uint32_t*, kMaxCudaRanks - 1> sent_flags{};
  std::uint32_t* taken = nullptr; ///< tiles that thread blocks have taken; 0 between runs
  const std::uint32_t* abort = nullptr;
};

using TileKernel = void (*)(TileRun);

/// The kernel of a type, f16 or bf16, and a B of [n, k] or [k, n], ready to be enqueued on the current device. Throws SystemError.
[[nodiscard]] TileKernel tile_kernel_of(bool is_half, bool b_is_transposed);

/// Enqueues one rank's tiles, by `cta_count` thread blocks of an SM each. Throws SystemError.
void enqueue_tiles(TileKernel kernel, const TileRun& run, int cta_count, cudaStream_t stream);

} // namespace mc2::executor::cuda
