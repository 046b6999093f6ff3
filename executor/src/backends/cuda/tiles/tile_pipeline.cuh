#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>

#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/tiles/hopper.cuh"
#include "backends/cuda/tiles/tile_shape.hpp"

// How a thread block multiplies tile after tile, independent of what becomes of them. One thread loads, and two
// warpgroups multiply 64 rows of the tile each. They exchange data through a ring of buffers for loads. They pass tiles
// to the thread or warp that stores through one more buffer: a tile is stored while the next one is multiplied. A
// thread block takes its next tile when it is ready for it.
//
// A Run has the members tiles, depth_steps, taken, a and a_bits (tensors); functions load_b() and a_bit_count() exist
// for it.
namespace mc2::executor::cuda {

inline constexpr int kABytes = kTileRows * kDepth * 2;
inline constexpr int kBoxBytes = kTileRows * kBoxColumns * 2;
inline constexpr int kBitBytes = kBitRows * kBoxColumns * 2;
inline constexpr int kAlignment = 1024; ///< alignment of swizzled memory
inline constexpr int kWorkers = 2;      ///< warpgroups that multiply
inline constexpr int kTileThreads = (1 + kWorkers) * hopper::kWarpgroup;

/// The sizes that depend on the tile's width.
template <int kColumns>
struct TileShape {
  static constexpr int kTileColumns = kColumns;
  static constexpr int kTileBytes = tile_bytes(kColumns);
  static constexpr int kTileBoxes = kColumns / kBoxColumns;
  static constexpr int kBBytes = kColumns * kDepth * 2;
  static constexpr int kSlotBytes = kABytes + kBBytes;
  static constexpr int kSlots = kColumns == kWideTile ? 3 : 6; ///< as many as fit beside the tile
  static constexpr int kBoxesPerSlot = kSlotBytes / kBoxBytes;
  static constexpr int kDynamicBytes = kSlots * kSlotBytes + kTileBytes + kAlignment;
  static constexpr int kSums = kColumns / 2; ///< sums of a thread; a warpgroup has kTileRows / kWorkers x kColumns
  /// Number of earlier steps whose products may still be under way when a step begins; the products of narrow tiles are
  /// short.
  static constexpr int kStepsBehind = kColumns == kWideTile ? 0 : 1;
};

inline constexpr int kTickets = 2; ///< tiles that may be taken and not yet finished

template <typename Shape>
struct Barriers {
  std::uint64_t full[Shape::kSlots];
  std::uint64_t empty[Shape::kSlots];
  std::uint64_t tile_full, tile_empty;
  std::uint64_t ticket_full[kTickets], ticket_empty[kTickets];
};

/// A place in a ring, and the phase of its barriers.
template <int kLength>
struct Place {
  int index = 0;
  std::uint32_t phase = 0;
  __device__ void next() {
    if (++index < kLength) return;
    index = 0;
    phase ^= 1U;
  }
};

/// Addresses of what lies in shared memory.
template <typename Shape>
struct Shared {
  using Slot = Place<Shape::kSlots>;
  std::uint32_t ring;
  std::uint32_t tile;
  const Barriers<Shape>* barriers;
  volatile int* tickets;                                          ///< [kTickets] tickets, then the number of tiles
  __device__ int tile_count() const { return tickets[kTickets]; } // read each time: no register is left for it
  __device__ std::uint32_t slot(const Slot& at) const { return ring + at.index * Shape::kSlotBytes; }
  __device__ std::uint32_t full(const Slot& at) const { return hopper::shared_address(&barriers->full[at.index]); }
  __device__ std::uint32_t empty(const Slot& at) const { return hopper::shared_address(&barriers->empty[at.index]); }
  __device__ std::uint32_t tile_full() const { return hopper::shared_address(&barriers->tile_full); }
  __device__ std::uint32_t tile_empty() const { return hopper::shared_address(&barriers->tile_empty); }
};

/// The numbers of tiles that the loading thread takes and that all other threads follow.
template <typename Shape, typename Run>
class Tickets {
 public:
  __device__ Tickets(const Run& run, const Shared<Shape>& shared) : run_(run), shared_(shared) {}

  /// Takes the loading thread's next tile. A result of at least tile_count() means that none is left. Each thread block
  /// takes one such number; the one that takes the last resets the counter to 0.
  __device__ int take() {
    hopper::wait(empty(), at_.phase ^ 1U);
    const auto number = atomicAdd(run_.taken, 1U);
    if (number + 1 == shared_.tile_count() + gridDim.x) *run_.taken = 0;
    shared_.tickets[at_.index] = static_cast<int>(number);
    hopper::arrive(full());
    at_.next();
    return static_cast<int>(number);
  }
  /// The next of these numbers, for a thread that follows the loading thread.
  __device__ int follow() {
    hopper::wait(full(), at_.phase);
    const int number = shared_.tickets[at_.index];
    hopper::arrive(empty());
    at_.next();
    return number;
  }

 private:
  __device__ std::uint32_t full() const { return hopper::shared_address(&shared_.barriers->ticket_full[at_.index]); }
  __device__ std::uint32_t empty() const { return hopper::shared_address(&shared_.barriers->ticket_empty[at_.index]); }

  const Run& run_;
  const Shared<Shape>& shared_;
  Place<kTickets> at_;
};

inline constexpr int kABits = kTileRows / kBitRows, kABitBytes = kABytes / kABits;

/// The first element of a box.
struct BoxPlace {
  int x, y;
};

/// Loads A and B of one step. A B of [n, k] comes in boxes of kTileRows rows, a B of [k, n] in boxes of kBoxColumns
/// columns.
/// @param a_bits  used only if !kIsWhole: whole tiles have no time for a check
template <typename Shape, bool kIsBTransposed, bool kIsWhole, typename Run, typename Tile>
__device__ void load_step(const Run& run, const Tile& tile, int a_bits, int step, const Shared<Shape>& shared,
                          const typename Shared<Shape>::Slot& at) {
  const std::uint32_t a = shared.slot(at), b = a + kABytes, full = shared.full(at);
  const int k = step * kDepth;
  if constexpr (kIsWhole) {
    hopper::arrive_expecting(full, Shape::kSlotBytes);
    hopper::load_box(a, &run.a, k, tile.a_row, full);
  } else {
    hopper::arrive_expecting(full, Shape::kBBytes + a_bits * kABitBytes);
#pragma unroll 1
    for (int i = 0; i < a_bits; ++i)
      hopper::load_box(a + i * kABitBytes, &run.a_bits, k, tile.a_row + i * kBitRows, full);
  }
  constexpr int kBoxes = kIsBTransposed ? Shape::kTileColumns / kTileRows : Shape::kTileBoxes;
#pragma unroll
  for (int i = 0; i < kBoxes; ++i) {
    if constexpr (kIsBTransposed)
      load_b(b + i * Shape::kBBytes / kBoxes, run, tile, {k, tile.column + i * kTileRows}, full);
    else
      load_b(b + i * Shape::kBBytes / kBoxes, run, tile, {tile.column + i * kBoxColumns, k}, full);
  }
}

template <typename Shape, bool kIsBTransposed, bool kIsWhole, typename Run, typename Tile>
__device__ void load_steps(const Run& run, const Tile& tile, int a_bits, bool is_backwards, const Shared<Shape>& shared,
                           typename Shared<Shape>::Slot& at) {
  for (int step = 0; step < run.depth_steps; ++step, at.next()) {
    hopper::wait(shared.empty(at), at.phase ^ 1U);
    load_step<Shape, kIsBTransposed, kIsWhole>(run, tile, a_bits, is_backwards ? run.depth_steps - 1 - step : step,
                                               shared, at);
  }
}

/// Loads tile after tile, and calls `load_more(tile, at)` after the loads of each tile.
template <typename Shape, bool kIsBTransposed, typename Run, typename LoadMore>
__device__ void load_tiles(const Run& run, const Shared<Shape>& shared, const LoadMore& load_more) {
  typename Shared<Shape>::Slot at;
  Tickets<Shape, Run> tickets(run, shared);
  for (int i = tickets.take(); i < shared.tile_count(); i = tickets.take()) {
    const auto tile = run.tiles[i];
    const int a_bits = a_bit_count(run, tile);
    // what the wave before has read last of A and B is still in the L2 cache
    const bool is_backwards = i / gridDim.x % 2 == 1;
    if (a_bits == kABits)
      load_steps<Shape, kIsBTransposed, true>(run, tile, a_bits, is_backwards, shared, at);
    else
      load_steps<Shape, kIsBTransposed, false>(run, tile, a_bits, is_backwards, shared, at);
    load_more(tile, at);
  }
}

__device__ inline float2 unpack(std::uint32_t word, __nv_bfloat16 /*type*/) {
  return {__uint_as_float(word << 16U), __uint_as_float(word & 0xFFFF0000U)};
}
__device__ inline float2 unpack(std::uint32_t word, __half /*type*/) {
  return __half22float2(*reinterpret_cast<__half2*>(&word));
}
__device__ inline std::uint32_t pack(float first, float second, __nv_bfloat16 /*type*/) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}
__device__ inline std::uint32_t pack(float first, float second, __half /*type*/) {
  const __half2 both = __floats2half2_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

/// A warpgroup that multiplies rows of tiles. Derived classes decide what is added to the products.
template <typename T, typename Shape, bool kIsBTransposed, typename Run>
class TileWorker {
 protected:
  __device__ TileWorker(const Run& run, const Shared<Shape>& shared, int number)
      : run_(run),
        shared_(shared),
        number_(number),
        thread_(threadIdx.x % hopper::kWarpgroup),
        row_(number * kTileRows / kWorkers + thread_ / 32 * 16 + thread_ % 16) {}

  /// Multiplies all tiles. `add_to(tile)` may change the products, sum_, before they are put down.
  template <typename AddTo>
  __device__ void multiply_tiles(const AddTo& add_to) {
    std::uint32_t tile_phase = 1;
    Tickets<Shape, Run> tickets(run_, shared_);
    for (int i = tickets.follow(); i < shared_.tile_count(); i = tickets.follow(), tile_phase ^= 1U) {
      multiply_tile();
      add_to(run_.tiles[i]);
      hopper::wait(shared_.tile_empty(), tile_phase);
      put_down();
    }
  }

  using Slot = typename Shared<Shape>::Slot;

  __device__ void multiply_tile() {
    Slot used = at_;
    for (int step = 0; step < run_.depth_steps; ++step) {
      multiply_step(step == 0);
      hopper::wait_for_products<Shape::kStepsBehind>();
      if (step >= Shape::kStepsBehind) leave(used);
    }
    if constexpr (Shape::kStepsBehind == 0) return;
    hopper::wait_for_products<0>();
    leave(used);
  }

  __device__ void multiply_step(bool is_first) {
    hopper::wait(shared_.full(at_), at_.phase);
    const std::uint32_t a = shared_.slot(at_) + number_ * kABytes / kWorkers, b = shared_.slot(at_) + kABytes;
    constexpr int kProductDepth = 16;
    constexpr std::uint32_t kAlongK = kProductDepth * 2;                // step in rows that are contiguous along k
    constexpr std::uint32_t kAcrossK = kProductDepth * kBoxColumns * 2; // step in boxes whose rows run along k
    hopper::begin_products();
#pragma unroll
    for (int i = 0; i < kDepth / kProductDepth; ++i) {
      hopper::add_product<T, !kIsBTransposed>(
          sum_, hopper::matrix_descriptor(a + i * kAlongK, 0),
          kIsBTransposed ? hopper::matrix_descriptor(b + i * kAlongK, 0)
                         : hopper::matrix_descriptor(b + i * kAcrossK, kDepth * kBoxColumns * 2),
          !is_first || i > 0);
    }
    hopper::end_products();
    at_.next();
  }

  __device__ void leave(Slot& slot) const {
    if (thread_ == 0) hopper::arrive(shared_.empty(slot));
    slot.next();
  }

  __device__ void meet_own() const {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + number_), "n"(hopper::kWarpgroup) : "memory");
  }

  /// The offset in a box of the row whose address this thread passes to store_matrices() or load_matrices() for the
  /// four matrices from column 8 j on: 8 rows, the 8 rows below, and both again 8 columns further. Vectors of 16 bytes
  /// are swizzled by row, as in CU_TENSOR_MAP_SWIZZLE_128B.
  __device__ std::uint32_t row_offset(int j) const {
    return row_ * kBoxColumns * 2 + (((j + thread_ % 32 / 16) ^ (row_ & 7)) << 4);
  }

  __device__ void put_down() {
#pragma unroll
    for (int j = 0; j < Shape::kTileColumns / 8; j += 2) {
      std::uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[i] = pack(sum_[j * 4 + i * 2], sum_[j * 4 + i * 2 + 1], T{});
      hopper::store_matrices(shared_.tile + j / 8 * kBoxBytes + row_offset(j % 8), pairs);
    }
    hopper::order_shared_with_bulk_copies();
    meet_own();
    if (thread_ == 0) hopper::arrive(shared_.tile_full());
  }

  const Run& run_;
  const Shared<Shape>& shared_;
  int number_, thread_, row_;
  Slot at_;
  float sum_[Shape::kSums];
};

/// Initialises a thread block's barriers. All threads call it before anything else.
template <typename Shape>
__device__ Shared<Shape> set_up(std::uint8_t* dynamic, Barriers<Shape>& barriers, int* tickets, int tile_count) {
  const std::uint32_t base = (hopper::shared_address(dynamic) + kAlignment - 1) / kAlignment * kAlignment;
  const Shared<Shape> shared{base, base + Shape::kSlots * Shape::kSlotBytes, &barriers, tickets};
  if (threadIdx.x == 0) {
    tickets[kTickets] = tile_count;
    for (typename Shared<Shape>::Slot at; at.phase == 0; at.next()) {
      hopper::init_barrier(shared.full(at), 1);
      hopper::init_barrier(shared.empty(at), kWorkers);
    }
    hopper::init_barrier(shared.tile_full(), kWorkers);
    hopper::init_barrier(shared.tile_empty(), 1);
    for (int i = 0; i < kTickets; ++i) {
      hopper::init_barrier(hopper::shared_address(&barriers.ticket_full[i]), 1);
      // all threads of the workers, and the storing thread
      hopper::init_barrier(hopper::shared_address(&barriers.ticket_empty[i]), kWorkers * hopper::kWarpgroup + 1);
    }
    hopper::order_shared_with_bulk_copies();
  }
  __syncthreads();
  return shared;
}

/// The kernel for f16 or bf16, a width of tiles, and a B of [n, k] or [k, n], on the current device. Throws
/// SystemError.
/// @tparam Family  its instance<T, Shape, kIsBTransposed>() returns the kernel
template <typename Run, typename Family, typename T, typename Shape>
MatmulKernel<Run> kernel_of(bool b_is_transposed) {
  const auto function =
      b_is_transposed ? Family::template instance<T, Shape, true>() : Family::template instance<T, Shape, false>();
  MC2_CUDA(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kDynamicBytes));
  return {function, Shape::kDynamicBytes};
}

template <typename Run, typename Family>
MatmulKernel<Run> kernel_of(bool is_half, int tile_columns, bool b_is_transposed) {
  using Wide = TileShape<kWideTile>;
  using Narrow = TileShape<kNarrowTile>;
  if (tile_columns == kWideTile)
    return is_half ? kernel_of<Run, Family, __half, Wide>(b_is_transposed)
                   : kernel_of<Run, Family, __nv_bfloat16, Wide>(b_is_transposed);
  return is_half ? kernel_of<Run, Family, __half, Narrow>(b_is_transposed)
                 : kernel_of<Run, Family, __nv_bfloat16, Narrow>(b_is_transposed);
}

/// Launches the kernel with `cta_count` thread blocks, each of which fills an SM. Throws SystemError.
template <typename Run>
void launch(const MatmulKernel<Run>& kernel, const Run& run, int cta_count, cudaStream_t stream) {
  Run argument = run;
  std::array<void*, 1> arguments{&argument};
  MC2_CUDA(cudaLaunchKernel(kernel.function, static_cast<unsigned>(cta_count), kTileThreads, arguments.data(),
                            static_cast<std::size_t>(kernel.shared_bytes), stream));
}

} // namespace mc2::executor::cuda
