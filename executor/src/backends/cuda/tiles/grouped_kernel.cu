#include <algorithm>

#include "backends/cuda/tiles/grouped_kernel.hpp"
#include "backends/cuda/tiles/tile_pipeline.cuh"

// One kernel multiplies the rows of all experts, each by its own B. One thread stores whole tiles in boxes. A warp
// stores tiles that have fewer rows, or whose rows are scattered in C.
namespace mc2::executor::cuda {

/// How many boxes of kBitRows rows of A belong to the tile's expert. The products of other rows are not stored.
__device__ inline int a_bit_count(const GroupedRun& /*run*/, const GroupedTile& tile) {
  return (tile.row_count + kBitRows - 1) / kBitRows;
}

__device__ inline void load_b(std::uint32_t to, const GroupedRun& run, const GroupedTile& tile, BoxPlace at,
                              std::uint32_t full) {
  hopper::load_box(to, &run.b, at.x, at.y, tile.expert, full);
}

namespace {

constexpr int kWarp = 32;
constexpr int kVector = 16; ///< bytes

/// One warp that stores tiles as the workers put them down.
template <typename Shape>
class TileStorer {
 public:
  __device__ TileStorer(const GroupedRun& run, const Shared<Shape>& shared)
      : run_(run), shared_(shared), tickets_(run, shared), lane_(static_cast<int>(threadIdx.x) % kWarp) {}

  __device__ void store_tiles() {
    std::uint32_t phase = 0;
    for (int i = follow(); i < shared_.tile_count(); i = follow(), phase ^= 1U) {
      const GroupedTile tile = run_.tiles[i];
      hopper::wait(shared_.tile_full(), phase);
      if (tile.row_count < kTileRows || run_.chosen != nullptr)
        store_rows(tile);
      else if (lane_ == 0)
        store_boxes(tile);
      __syncwarp();
      if (lane_ == 0) hopper::arrive(shared_.tile_empty());
    }
    if (lane_ == 0) hopper::wait_until_stored();
  }

 private:
  __device__ int follow() {
    const int number = lane_ == 0 ? tickets_.follow() : 0;
    return __shfl_sync(0xFFFFFFFFU, number, 0);
  }

  __device__ void store_boxes(const GroupedTile& tile) const {
#pragma unroll
    for (int box = 0; box < Shape::kTileBoxes; ++box) {
      const int column = tile.column + box * kBoxColumns;
      if (column < run_.column_count) hopper::store_box(&run_.c, column, tile.c_row, 0, shared_.tile + box * kBoxBytes);
    }
    hopper::commit_stores();
    hopper::wait_until_stores_read();
  }

  /// Stores the tile's rows, 16 bytes per thread at a time. In shared memory these vectors are swizzled by row, as in
  /// CU_TENSOR_MAP_SWIZZLE_128B.
  __device__ void store_rows(const GroupedTile& tile) const {
    constexpr int kBoxVectors = kBoxColumns * 2 / kVector, kRowVectors = Shape::kTileBoxes * kBoxVectors;
    constexpr int kRowsAtOnce = kWarp / kRowVectors, kVectorElements = kVector / 2;
    const int vector = lane_ % kRowVectors, box = vector / kBoxVectors;
    const int column = tile.column + vector * kVectorElements;
    if (column >= run_.column_count) return;
    const std::int64_t pitch_bytes = std::int64_t{run_.column_count} * 2;
    std::byte* const to = run_.c_first + std::int64_t{column} * 2;
#pragma unroll 4
    for (int row = lane_ / kRowVectors; row < tile.row_count; row += kRowsAtOnce) {
      const std::uint32_t place =
          box * kBoxBytes + row * kBoxColumns * 2 + (((vector % kBoxVectors) ^ (row & 7)) * kVector);
      *reinterpret_cast<uint4*>(to + row_in_c(tile.c_row + row) * pitch_bytes) =
          hopper::load_vector(shared_.tile + place);
    }
  }

  __device__ std::int64_t row_in_c(int row) const { return run_.chosen == nullptr ? row : run_.chosen[row].c_row; }

  const GroupedRun& run_;
  const Shared<Shape>& shared_;
  Tickets<Shape, GroupedRun> tickets_;
  int lane_;
};

template <typename T, typename Shape, bool kIsBTransposed>
class ExpertWorker : TileWorker<T, Shape, kIsBTransposed, GroupedRun> {
  using Base = TileWorker<T, Shape, kIsBTransposed, GroupedRun>;

 public:
  __device__ ExpertWorker(const GroupedRun& run, const Shared<Shape>& shared, int number) : Base(run, shared, number) {}

  __device__ void work() {
    this->multiply_tiles([&](const GroupedTile& tile) {
      if (this->run_.bias != nullptr) add_bias(tile);
      if (this->run_.residual != nullptr) add_residual(tile);
    });
  }

 private:
  /// Calls `add(sums, row in the tile, column)` for each pair of neighbouring sums of the thread (hopper::add_product()
  /// says which) that belongs to the expert.
  template <typename Add>
  __device__ void for_each_pair(const GroupedTile& tile, const Add& add) {
    const int first_row = this->number_ * kTileRows / kWorkers + this->thread_ / kWarp * 16 + this->thread_ % kWarp / 4;
    const int first_column = tile.column + this->thread_ % 4 * 2;
#pragma unroll
    for (int j = 0; j < Shape::kTileColumns / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + half * 8, column = first_column + j * 8;
        if (row < tile.row_count && column < this->run_.column_count) add(this->sum_ + j * 4 + half * 2, row, column);
      }
    }
  }

  __device__ static void add_pair(float* sums, const std::byte* matrix, std::int64_t element) {
    const float2 pair = unpack(*reinterpret_cast<const std::uint32_t*>(matrix + element * 2), T{});
    sums[0] += pair.x;
    sums[1] += pair.y;
  }

  __device__ void add_bias(const GroupedTile& tile) {
    const std::int64_t first = std::int64_t{tile.expert} * this->run_.column_count;
    for_each_pair(tile, [&](float* sums, int /*row*/, int column) { add_pair(sums, this->run_.bias, first + column); });
  }

  __device__ void add_residual(const GroupedTile& tile) {
    for_each_pair(tile, [&](float* sums, int row, int column) {
      add_pair(sums, this->run_.residual, (tile.c_row + row) * std::int64_t{this->run_.column_count} + column);
    });
  }
};

template <typename T, typename Shape, bool kIsBTransposed>
__global__ void __launch_bounds__(kTileThreads, 1) grouped_kernel(const __grid_constant__ GroupedRun run) {
  extern __shared__ std::uint8_t dynamic[];
  if (threadIdx.x == kWarp) {
    for (const CUtensorMap* tensor : {&run.a, &run.b, &run.c}) hopper::prefetch(tensor);
    hopper::prefetch(run.tiles + blockIdx.x); // most likely this block's first tile
  }
  __shared__ Barriers<Shape> barriers;
  __shared__ int tickets[kTickets + 1];
  const Shared<Shape> shared = set_up<Shape>(dynamic, barriers, tickets, *run.tile_count);
  const int warpgroup = threadIdx.x / hopper::kWarpgroup;
  if (warpgroup == 0) {
    hopper::give_registers_up<40>();
    if (threadIdx.x == 0)
      load_tiles<Shape, kIsBTransposed>(run, shared,
                                        [](const GroupedTile& /*tile*/, typename Shared<Shape>::Slot& /*at*/) {});
    if (threadIdx.x / kWarp == 1) TileStorer<Shape>(run, shared).store_tiles();
  } else {
    hopper::take_registers<232>();
    ExpertWorker<T, Shape, kIsBTransposed>(run, shared, warpgroup - 1).work();
  }
}

struct GroupedKernels {
  template <typename T, typename Shape, bool kIsBTransposed>
  static void (*instance())(GroupedRun) {
    return grouped_kernel<T, Shape, kIsBTransposed>;
  }
};

} // namespace

GroupedKernel grouped_kernel_of(bool is_half, int tile_columns, bool b_is_transposed) {
  return kernel_of<GroupedRun, GroupedKernels>(is_half, tile_columns, b_is_transposed);
}

void enqueue_grouped(const GroupedKernel& kernel, const GroupedRun& run, int cta_count, cudaStream_t stream) {
  launch(kernel, run, std::min(cta_count, run.most_tiles), stream);
}

} // namespace mc2::executor::cuda
