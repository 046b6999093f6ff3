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

/// How a tile gets to the rank whose rows it has.
enum class Handover : std::uint8_t {
  Store, ///< the matmul stores it there
  Copy,  ///< the matmul stores it at home; copy engines bring up to kTilesPerCopy of them at a time
};
inline constexpr std::int64_t kTilesPerCopy = 128; ///< 8 MiB: a copy and its two signals cost about 15 us besides

/// What the kernel multiplies: bf16 and f16, and rows whose length is a multiple of 16 bytes, as bulk copies need.
/// Errors: Unsupported naming type, n or k.
[[nodiscard]] planner::Result<void> check_tile_shape(const planner::OpSpec& op);

/// Bytes of the memory that each rank brings for TileReduceScatter.
[[nodiscard]] std::int64_t tile_memory_bytes(const StageList& stages, Handover handover);

/// A rank's part of a matmul_reduce_scatter inside its matmul, a kernel of our own: tiles of other ranks' rows are multiplied first
/// and handed over one by one or by copy engines; the rank's own are multiplied last, and summed, in f32, with those that arrived.
/// With several blocks, the own tiles of each come after the other ranks' tiles of the next.
class TileReduceScatter {
 public:
  struct Matrices {
    const std::byte* a = nullptr;
    const std::byte* b = nullptr;
    std::byte* c = nullptr;
  };

  /// @param memory of every rank, by rank, as this process reaches it: tile_memory_bytes() each, outlives *this
  /// @param cta_count thread blocks, each an SM. Throws SystemError.
  TileReduceScatter(const StageList& stages, int rank, Handover handover, bool b_is_transposed, int cta_count,
                    std::span<std::byte* const> memory, const std::uint32_t* abort, DevicePool& pool);

  /// The operands of the next runs, aligned to 16 bytes. Throws SystemError.
  void bind(const Matrices& matrices);
  /// Enqueues what a run needs before the ranks meet. Throws SystemError.
  void enqueue_reset(cudaStream_t stream) const;
  /// Enqueues the run: the kernel, and the copies. Both streams come after the meeting; the run has ended when both have. Can be
  /// captured. Throws SystemError.
  void enqueue(cudaStream_t compute, cudaStream_t communication) const;

 private:
  /// Tiles that are handed over together.
  struct Chunk {
    std::int64_t first_tile = 0;
    std::int64_t tile_count = 0;
  };

  [[nodiscard]] std::vector<Tile> shard_tiles() const;
  void divide(std::int64_t first_tile, std::int64_t tile_count);
  void order_tiles(DevicePool& pool);
  void enqueue_copies(cudaStream_t stream) const;

  StageList list_;
  int rank_;
  Handover handover_;
  bool b_is_transposed_;
  int cta_count_;
  std::vector<std::byte*> memory_;
  std::vector<Chunk> chunks_;
  TileRun run_;
  std::unique_ptr<DeviceMemory> tiles_;
};

} // namespace mc2::executor::cuda
