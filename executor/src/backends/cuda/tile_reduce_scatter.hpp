#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cuda/device_pool.hpp"
#include "backends/cuda/tile_kernel.hpp"
#include "mc2/executor/stage.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::cuda {

/// What the kernel multiplies: bf16 and f16, and rows whose length is a multiple of 16 bytes, as bulk copies need.
/// Errors: Unsupported naming type, n or k.
[[nodiscard]] planner::Result<void> check_tile_shape(const planner::OpSpec& op);

/// Bytes of the memory that each rank brings for TileReduceScatter.
[[nodiscard]] std::int64_t tile_memory_bytes(const StageList& stages);

/// A rank's part of a matmul_reduce_scatter inside its matmul, a kernel of our own: tiles of other ranks' rows are multiplied first
/// and stored in those ranks' memory; the rank's own are multiplied last, and summed, in f32, with those that arrived.
/// With several blocks, the own tiles of each come after the other ranks' tiles of the next.
class TileReduceScatter {
 public:
  struct Matrices {
    const std::byte* a = nullptr;
    const std::byte* b = nullptr;
    std::byte* c = nullptr;
    std::byte* products = nullptr; ///< for enqueue_products(): [m, n]
  };

  /// @param memory of every rank, by rank, as this process reaches it: tile_memory_bytes() each, zero at first, outlives *this
  /// @param cta_count thread blocks, each an SM
  /// @param pool of the device that runs it. Throws SystemError.
  TileReduceScatter(const StageList& stages, int rank, bool b_is_transposed, int cta_count, std::span<std::byte* const> memory,
                    const std::uint32_t* abort, DevicePool& pool);

  /// The operands of the next runs, aligned to 16 bytes. Throws SystemError.
  void bind(const Matrices& matrices);
  /// Enqueues the run, after the meeting; can be captured. Throws SystemError.
  void enqueue(cudaStream_t stream) const;
  /// Enqueues the matmul without the collective, its tiles in the run's order. Throws SystemError.
  void enqueue_products(cudaStream_t stream) const;

 private:
  [[nodiscard]] std::vector<Tile> block_tiles(std::size_t block, std::int32_t first_index) const;
  [[nodiscard]] std::vector<Tile> all_tiles() const;
  void upload_tiles(DevicePool& pool);

  StageList list_;
  int rank_;
  bool b_is_transposed_;
  int cta_count_;
  TileKernel kernel_;
  TileRun run_;
  TileRun products_run_;
  std::unique_ptr<DeviceMemory> tiles_;
};

} // namespace mc2::executor::cuda
