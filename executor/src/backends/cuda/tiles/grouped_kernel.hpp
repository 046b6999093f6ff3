#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backends/cuda/tiles/tile_shape.hpp"

namespace mc2::executor::cuda {

/// A tile of the product: rows of one expert times columns of its B.
struct GroupedTile {
  std::int32_t expert;
  std::int32_t a_row; ///< first row in A
  std::int32_t c_row;
  std::int32_t row_count; ///< kTileRows at most; the following rows of C belong to another expert or to nobody
  std::int32_t column;
};

/// A row of A, and the row of C for its product.
struct ChosenRow {
  std::int32_t a_row;
  std::int32_t c_row;
};

/// A run of the kernel: C = A B with the B of each row's expert, plus bias and residual.
struct GroupedRun {
  CUtensorMap a, b;                    ///< b has one matrix per expert
  CUtensorMap a_bits;                  ///< A in boxes of kBitRows rows
  CUtensorMap c;                       ///< in boxes of kTileRows rows
  std::byte* c_first = nullptr;        ///< [rows, n]
  const std::byte* bias = nullptr;     ///< [experts, n]; null: none
  const std::byte* residual = nullptr; ///< shape of C; null: none
  /// by row of the product: its row in C, if not the same; requires that there is no residual. Null: the same rows
  const ChosenRow* chosen = nullptr;
  const GroupedTile* tiles = nullptr;
  const std::int32_t* tile_count = nullptr; ///< on the device, as the tiles are; other kernels may write both
  int most_tiles = 0;
  int depth_steps = 0;            ///< steps along k, of kDepth each
  int column_count = 0;           ///< n
  std::uint32_t* taken = nullptr; ///< tiles that thread blocks have taken; 0 between runs
};

using GroupedKernel = MatmulKernel<GroupedRun>;

/// The kernel for f16 or bf16, a width of tiles, and a B of [n, k] or [k, n], ready to be enqueued on the current
/// device. Throws SystemError.
[[nodiscard]] GroupedKernel grouped_kernel_of(bool is_half, int tile_columns, bool b_is_transposed);

/// Enqueues all tiles, by at most `cta_count` thread blocks, each of which fills an SM. Throws SystemError.
void enqueue_grouped(const GroupedKernel& kernel, const GroupedRun& run, int cta_count, cudaStream_t stream);

} // namespace mc2::executor::cuda
