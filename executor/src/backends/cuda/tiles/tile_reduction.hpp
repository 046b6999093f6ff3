#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/runtime/device_pool.hpp"
#include "backends/cuda/tiles/tile_kernel.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "stage.hpp"

namespace mc2::executor::cuda {

/// What the kernel multiplies: bf16 and f16, and rows whose length is a multiple of 16 bytes, as bulk copies need.
/// Errors: Unsupported naming type, n or k.
[[nodiscard]] Result<void> check_tile_shape(const planner::OpSpec& op);

/// Bytes of the memory that each rank brings for TileReduction.
[[nodiscard]] std::int64_t tile_memory_bytes(const StageList& stages, int tile_columns);
/// At most so many bytes are what a TileReduction takes of its pool.
[[nodiscard]] std::int64_t tile_list_bytes(const StageList& stages, int tile_columns);

/// A rank's part of a matmul_reduce_scatter or matmul_all_reduce inside its matmul, a kernel of our own. Every tile is
/// summed by one rank, in f32: by that of its shard, or where all get the sums, by one of the ranks, which share the
/// tiles. What others sum is stored in those ranks' memory as it is multiplied; what the rank sums is stored in its C
/// or in everybody's (TileOrder).
class TileReduction {
 public:
  struct Options {
    int tile_columns = kWideTile;
    bool b_is_transposed = false;
    int cta_count = 0; ///< thread blocks, each an SM
  };
  struct Matrices {
    const std::byte* a = nullptr;
    const std::byte* b = nullptr;
    std::array<std::byte*, kMaxCudaRanks> c{}; ///< by rank; only an all-reduce needs those of others
    std::byte* products = nullptr;             ///< for enqueue_products(): [m, n]
  };

  /// @param memory of every rank, by rank, as this process reaches it: tile_memory_bytes() each, zero at first,
  /// outlives *this
  /// @param pool of the device that runs it. Throws SystemError.
  TileReduction(const StageList& stages, int rank, const Options& options, std::span<std::byte* const> memory,
                const std::uint32_t* abort, DevicePool& pool);

  /// The operands of the next runs, aligned to 16 bytes. Throws SystemError.
  void bind(const Matrices& matrices);
  /// Enqueues the run, after the meeting; can be captured. Throws SystemError.
  void enqueue(cudaStream_t stream) const;
  /// Enqueues the matmul without the collective, its tiles in the run's order. Throws SystemError.
  void enqueue_products(cudaStream_t stream) const;

 private:
  void upload_tiles(std::vector<Tile> tiles, DevicePool& pool);

  planner::OpSpec op_;
  int rank_;
  Options options_;
  TileKernel kernel_;
  TileRun run_;
  TileRun products_run_;
  std::unique_ptr<DeviceMemory> tiles_;
};

} // namespace mc2::executor::cuda
