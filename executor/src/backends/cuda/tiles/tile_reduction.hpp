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

/// Checks that the kernel can multiply the operator: bf16 or f16, and rows whose length is a multiple of 16 bytes, as
/// bulk copies need. Errors: Unsupported naming type, n or k.
[[nodiscard]] Result<void> check_tile_shape(const planner::OpSpec& op);

/// Bytes of the memory that each rank provides for a TileReduction.
[[nodiscard]] std::int64_t tile_memory_bytes(const StageList& stages, int tile_columns);
/// Most bytes that a TileReduction takes of its pool.
[[nodiscard]] std::int64_t tile_list_bytes(const StageList& stages, int tile_columns);

/// A rank's part of a matmul_reduce_scatter or matmul_all_reduce inside its matmul, which is a kernel of our own. Each
/// tile is summed in f32 by one rank: by the rank of its shard, or, if all ranks get the sums, by one of the ranks,
/// which share the tiles. As soon as the rank has multiplied a tile that another rank sums, it stores it in that rank's
/// memory. Tiles that it sums itself it stores in its own C or in every rank's C (TileOrder).
class TileReduction {
 public:
  struct Options {
    int tile_columns = kWideTile;
    bool b_is_transposed = false;
    int cta_count = 0; ///< thread blocks, each of which fills an SM
  };
  struct Matrices {
    const std::byte* a = nullptr;
    const std::byte* b = nullptr;
    std::array<std::byte*, kMaxCudaRanks> c{}; ///< by rank; those of other ranks are needed in an all-reduce only
    std::byte* products = nullptr;             ///< for enqueue_products(): [m, n]
  };

  /// @param memory by rank, every rank's memory as this process reaches it: tile_memory_bytes() each, zero at first,
  /// outlives *this
  /// @param pool pool of the device that runs it
  /// Throws SystemError.
  TileReduction(const StageList& stages, int rank, const Options& options, std::span<std::byte* const> memory,
                const std::uint32_t* abort, DevicePool& pool);

  /// Sets the operands of the next runs; they are aligned to 16 bytes. Throws SystemError.
  void bind(const Matrices& matrices);
  /// Enqueues the run, after the ranks have met; can be captured. Throws SystemError.
  void enqueue(cudaStream_t stream) const;
  /// Enqueues the matmul without the collective, with the tiles in the same order. Throws SystemError.
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
