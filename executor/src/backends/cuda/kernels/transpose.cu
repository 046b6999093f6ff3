#include "backends/cuda/kernels/transpose.hpp"

#include <algorithm>

#include "backends/cuda/runtime/check.hpp"

namespace mc2::executor::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kRowsAtOnce = 8;
constexpr std::int64_t kMostBlocks = 1 << 16;

__global__ void transpose_kernel(const std::uint8_t* from, std::uint8_t* to, std::int64_t rows, std::int64_t columns) {
  __shared__ std::uint8_t tile[kTile][kTile + 4];
  const std::int64_t tiles_across = (columns + kTile - 1) / kTile;
  const std::int64_t tile_count = tiles_across * ((rows + kTile - 1) / kTile);
  for (std::int64_t at = blockIdx.x; at < tile_count; at += gridDim.x) {
    const std::int64_t first_row = at / tiles_across * kTile, first_column = at % tiles_across * kTile;
    for (int i = threadIdx.y; i < kTile; i += kRowsAtOnce) {
      const std::int64_t row = first_row + i, column = first_column + threadIdx.x;
      if (row < rows && column < columns) tile[i][threadIdx.x] = from[row * columns + column];
    }
    __syncthreads();
    for (int i = threadIdx.y; i < kTile; i += kRowsAtOnce) {
      const std::int64_t row = first_column + i, column = first_row + threadIdx.x;
      if (row < columns && column < rows) to[row * rows + column] = tile[threadIdx.x][i];
    }
    __syncthreads();
  }
}

} // namespace

void enqueue_transpose(const std::byte* from, std::byte* to, std::int64_t rows, std::int64_t columns,
                       cudaStream_t stream) {
  const std::int64_t tile_count = ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  const auto block_count = static_cast<unsigned>(std::min(tile_count, kMostBlocks));
  transpose_kernel<<<block_count, dim3(kTile, kRowsAtOnce), 0, stream>>>(
      reinterpret_cast<const std::uint8_t*>(from), reinterpret_cast<std::uint8_t*>(to), rows, columns);
  MC2_CUDA(cudaGetLastError());
}

} // namespace mc2::executor::cuda
