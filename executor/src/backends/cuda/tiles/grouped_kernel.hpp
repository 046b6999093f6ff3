#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backends/cuda/tiles/tile_shape.hpp"

namespace mc2::executor::cuda {

/// Rows of one expert times columns of its B.
struct GroupedTile {
  std::int32_t expert;
  std::int32_t a_row; ///< its first
  std::int32_t c_row;
  std::int32_t row_count; ///< kTileRows at most; what follows in C is another expert's, or nobody's
  std::int32_t column;
};

/// A row of A and the row of C that is its product.
struct ChosenRow {
  std::int32_t a_row;
  std::int32_t c_row;
};

/// C = A B of the rows' experts, and what is added to it.
struct GroupedRun {
  CUtensorMap a, b;                    ///< b of as many matrices as there are experts
  CUtensorMap a_bits;                  ///< A in boxes of kBitRows rows
  CUtensorMap c;                       ///< in boxes of kTileRows rows
  std::byte* c_first = nullptr;        ///< [rows, n]
  const std::byte* bias = nullptr;     ///< [experts, n]; null without
  const std::byte* residual = nullptr; ///< as C; null without
  /// by the row that a tile says: where it is put in C, without a residual then; null: there
  const ChosenRow* chosen = nullptr;
  const GroupedTile* tiles = nullptr;
  const std::int32_t* tile_count = nullptr; ///< on the device, as the tiles are: other kernels may make both
  int most_tiles = 0;
  int depth_steps = 0;            ///< kDepth of k each
  int column_count = 0;           ///< n
  std::uint32_t* taken = nullptr; ///< tiles that thread blocks have taken; 0 between runs
};

using GroupedKernel = MatmulKernel<GroupedRun>;

/// The kernel of a type, f16 or bf16, a tile's width and a B of [n, k] or [k, n], ready to be enqueued on the current
/// device. Throws SystemError.
[[nodiscard]] GroupedKernel grouped_kernel_of(bool is_half, int tile_columns, bool b_is_transposed);

/// Enqueues all tiles, by at most `cta_count` thread blocks of an SM each. Throws SystemError.
void enqueue_grouped(const GroupedKernel& kernel, const GroupedRun& run, int cta_count, cudaStream_t stream);

} // namespace mc2::executor::cuda
