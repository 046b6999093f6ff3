#include <algorithm>

#include "backends/cuda/kernels/kernels.cuh"
#include "backends/cuda/runtime/check.hpp"
#include "backends/cuda/tiles/hopper.cuh"
#include "backends/cuda/tiles/tile_kernel.hpp"

// One kernel multiplies all tiles, hands over those that other ranks sum, sums the others with what the peers hand
// over, and stores the sums in the rank's own C or in everybody's. A thread block is a loading thread, a storing thread
// and two warpgroups that multiply 64 rows of the tile each; they meet at a ring of buffers for what is loaded, and at
// one for the tile that is stored while the next is multiplied.
//
// Thread blocks take tiles as they come. Other ranks' tiles of a block wait for nothing and precede the own tiles of
// the block before, so whatever thread blocks of each rank have an SM make all that peers wait for, be other kernels in
// the way or not.
namespace mc2::executor::cuda {
namespace {

constexpr int kABytes = kTileRows * kDepth * 2;
constexpr int kBoxBytes = kTileRows * kBoxColumns * 2;
constexpr int kBitBytes = kBitRows * kBoxColumns * 2;
constexpr int kAlignment = 1024; ///< of swizzled memory
constexpr int kWorkers = 2;      ///< warpgroups that multiply
constexpr int kTileThreads = (1 + kWorkers) * hopper::kWarpgroup;

/// What depends on the tile's width.
template <int kColumns>
struct TileShape {
  static constexpr int kTileColumns = kColumns;
  static constexpr int kTileBytes = tile_bytes(kColumns);
  static constexpr int kTileBoxes = kColumns / kBoxColumns;
  static constexpr int kBBytes = kColumns * kDepth * 2;
  static constexpr int kSlotBytes = kABytes + kBBytes;
  static constexpr int kSlots = kColumns == kWideTile ? 3 : 6; ///< what fits beside the tile
  static constexpr int kBoxesPerSlot = kSlotBytes / kBoxBytes;
  static constexpr int kDynamicBytes = kSlots * kSlotBytes + kTileBytes + kAlignment;
  static constexpr int kSums = kColumns / 2; ///< of a thread: kTileRows / kWorkers rows by kColumns, of a warpgroup
  /// Steps whose products may be under way while the next begins: those of a narrow tile are short.
  static constexpr int kStepsBehind = kColumns == kWideTile ? 0 : 1;
};

constexpr int kTickets = 2; ///< tiles that have been taken and not been done with

template <typename Shape>
struct Barriers {
  std::uint64_t full[Shape::kSlots];
  std::uint64_t empty[Shape::kSlots];
  std::uint64_t tile_full, tile_empty;
  std::uint64_t ticket_full[kTickets], ticket_empty[kTickets];
};

/// A place in a ring.
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

/// Addresses in shared memory.
template <typename Shape>
struct Shared {
  using Slot = Place<Shape::kSlots>;
  std::uint32_t ring;
  std::uint32_t tile;
  const Barriers<Shape>* barriers;
  volatile int* tickets; ///< [kTickets]
  __device__ std::uint32_t slot(const Slot& at) const { return ring + at.index * Shape::kSlotBytes; }
  __device__ std::uint32_t full(const Slot& at) const { return hopper::shared_address(&barriers->full[at.index]); }
  __device__ std::uint32_t empty(const Slot& at) const { return hopper::shared_address(&barriers->empty[at.index]); }
  __device__ std::uint32_t tile_full() const { return hopper::shared_address(&barriers->tile_full); }
  __device__ std::uint32_t tile_empty() const { return hopper::shared_address(&barriers->tile_empty); }
};

/// What the loading thread takes and all others follow.
template <typename Shape>
class Tickets {
 public:
  __device__ Tickets(const TileRun& run, const Shared<Shape>& shared) : run_(run), shared_(shared) {}

  /// The loading thread's next tile, or one that is none. Whoever takes the last of all number that is none leaves the
  /// counter at 0.
  __device__ int take() {
    hopper::wait(empty(), at_.phase ^ 1U);
    const auto number = atomicAdd(run_.taken, 1U);
    if (number + 1 == run_.tile_count + gridDim.x) *run_.taken = 0;
    shared_.tickets[at_.index] = static_cast<int>(number);
    hopper::arrive(full());
    at_.next();
    return static_cast<int>(number);
  }
  /// The tile that was taken next.
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

  const TileRun& run_;
  const Shared<Shape>& shared_;
  Place<kTickets> at_;
};

constexpr int kABits = kTileRows / kBitRows, kABitBytes = kABytes / kABits;

/// Of a tile's rows of A, in boxes of kBitRows, how many are there. Rows beyond A's last are not loaded: a box of them
/// takes longer than one of rows that are there, and than the products of a narrow tile. What they give is not stored.
__device__ inline int a_bit_count(const TileRun& run, const Tile& tile) {
  return min(kABits, (run.a_row_count - tile.a_row + kBitRows - 1) / kBitRows);
}

/// A and B of one step. B of [n, k] comes in two boxes of kTileRows rows, else in columns of boxes.
/// @param a_bits  looked at only where not all rows are there: whole tiles have no time to ask
template <typename Shape, bool kIsBTransposed, bool kIsWhole>
__device__ void load_step(const TileRun& run, const Tile& tile, int a_bits, int step, const Shared<Shape>& shared,
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
      hopper::load_box(b + i * Shape::kBBytes / kBoxes, &run.b, k, tile.column + i * kTileRows, full);
    else
      hopper::load_box(b + i * Shape::kBBytes / kBoxes, &run.b, tile.column + i * kBoxColumns, k, full);
  }
}

template <typename Shape, bool kIsBTransposed, bool kIsWhole>
__device__ void load_steps(const TileRun& run, const Tile& tile, int a_bits, bool is_backwards,
                           const Shared<Shape>& shared, typename Shared<Shape>::Slot& at) {
  for (int step = 0; step < run.depth_steps; ++step, at.next()) {
    hopper::wait(shared.empty(at), at.phase ^ 1U);
    load_step<Shape, kIsBTransposed, kIsWhole>(run, tile, a_bits, is_backwards ? run.depth_steps - 1 - step : step,
                                               shared, at);
  }
}

/// The peers' pieces of an own tile, box by box and peer by peer, as many as fit a slot at a time.
template <typename Shape>
__device__ void load_pieces(const TileRun& run, const Tile& tile, const Shared<Shape>& shared,
                            typename Shared<Shape>::Slot& at, bool& is_aborted) {
  const int box_count = Shape::kTileBoxes * run.peer_count;
  for (int first = 0; first < box_count; first += Shape::kBoxesPerSlot, at.next()) {
    const int count = min(Shape::kBoxesPerSlot, box_count - first);
    hopper::wait(shared.empty(at), at.phase ^ 1U);
    hopper::arrive_expecting(shared.full(at), count * kBoxBytes);
    for (int i = 0; i < count; ++i) {
      const int peer = (first + i) % run.peer_count, box = (first + i) / run.peer_count;
      const std::int64_t place = std::int64_t{peer} * run.shard_tile_count;
      if (box == 0) {
        std::uint32_t* flag = run.arrived_flags + place + tile.index;
        if (!is_aborted) wait_until(flag, 1, run.abort);
        is_aborted = is_aborted || look(flag) == 0;
        *flag = 0; // the peer raises it in the next run, after the ranks have met
        hopper::order_with_bulk_copies();
      }
      hopper::load_bytes(shared.slot(at) + i * kBoxBytes,
                         run.arrived + (place + tile.index) * Shape::kTileBytes + box * kBoxBytes, kBoxBytes,
                         shared.full(at));
    }
  }
}

template <typename Shape, bool kIsBTransposed>
__device__ void load_tiles(const TileRun& run, const Shared<Shape>& shared) {
  typename Shared<Shape>::Slot at;
  Tickets<Shape> tickets(run, shared);
  bool is_aborted = false;
  for (int i = tickets.take(); i < run.tile_count; i = tickets.take()) {
    const Tile tile = run.tiles[i];
    const int a_bits = a_bit_count(run, tile);
    // what the wave before has read of A and B last is still in the L2 cache
    const bool is_backwards = i / gridDim.x % 2 == 1;
    if (a_bits == kABits)
      load_steps<Shape, kIsBTransposed, true>(run, tile, a_bits, is_backwards, shared, at);
    else
      load_steps<Shape, kIsBTransposed, false>(run, tile, a_bits, is_backwards, shared, at);
    if (tile.distance == 0) load_pieces(run, tile, shared, at, is_aborted);
  }
}

/// Stores tiles as the workers put them down.
template <typename Shape>
class Storer {
 public:
  __device__ Storer(const TileRun& run, const Shared<Shape>& shared)
      : run_(run), shared_(shared), tickets_(run, shared) {}

  __device__ void store_tiles() {
    std::uint32_t phase = 0;
    long long before = clock64();
    for (int i = tickets_.follow(); i < run_.tile_count; phase ^= 1U) {
      const Tile tile = run_.tiles[i];
      hopper::wait(shared_.tile_full(), phase);
      const long long now = clock64();
      tile_clocks_ = min(tile_clocks_, now - before);
      before = now;
      i = tickets_.follow();
      const bool is_last = i >= run_.tile_count;
      const long long clocks = is_last ? 0 : tile_clocks_;
      if (tile.distance > 0)
        send(tile, is_last, clocks);
      else
        store(tile, is_last, run_.c_count > 1 ? clocks : 0);
    }
    hopper::wait_until_stored();
    if (run_.c_count > 1) meet_peers();
  }

 private:
  static constexpr int kBits = Shape::kTileBytes / kBitBytes;

  /// Piece by piece. Each takes 0.2 us, whatever its size up to kBitBytes, and a box as much as two bits.
  template <typename StorePiece>
  __device__ void store_pieces(int count, long long clocks, const StorePiece& store_piece) const {
    const long long start = clock64(), pace = clocks * 4 / 5 / count;
    for (int piece = 0; piece < count; ++piece) {
      while (clock64() - start < piece * pace) {
      }
      store_piece(piece);
      hopper::commit_stores();
    }
    hopper::wait_until_stores_read();
    hopper::arrive(shared_.tile_empty());
  }

  /// In bits within most of `clocks`: all tiles of a wave at once would fill the links, and whatever waits for them, or
  /// for memory, holds up the loads of all SMs. The last has nothing beside it.
  __device__ void store(const Tile& tile, bool is_last, long long clocks) const {
    const int rows = is_last ? kTileRows : kBitRows, pieces_per_box = kTileRows / rows;
    store_pieces(is_last ? Shape::kTileBoxes : kBits, clocks, [&](int piece) {
      const int column = tile.column + piece / pieces_per_box * kBoxColumns;
      if (column >= run_.column_count) return;
      for (int i = 0; i < run_.c_count; ++i)
        hopper::store_box(is_last ? &run_.c[i].boxes : &run_.c[i].bits, column,
                          tile.c_row + piece % pieces_per_box * rows, tile.c_matrix,
                          shared_.tile + piece * rows * kBoxColumns * 2);
    });
  }

  __device__ void send(const Tile& tile, bool is_last, long long clocks) const {
    std::byte* to = run_.sent[tile.distance - 1] + std::int64_t{tile.index} * Shape::kTileBytes;
    const int bytes = is_last ? kBoxBytes : kBitBytes;
    store_pieces(is_last ? Shape::kTileBoxes : kBits, clocks,
                 [&](int piece) { hopper::store_bytes(to + piece * bytes, shared_.tile + piece * bytes, bytes); });
    hopper::wait_until_stored();
    hopper::order_with_bulk_copies();
    raise(run_.sent_flags[tile.distance - 1] + tile.index, 1);
  }

  /// The rank's last thread block tells the peers that it has stored all of its tiles in their C, and waits for theirs.
  __device__ void meet_peers() const {
    hopper::order_with_bulk_copies();
    __threadfence_system();
    if (atomicAdd(run_.ended, 1U) + 1 < gridDim.x) return;
    *run_.ended = 0;
    __threadfence_system();
    for (int peer = 0; peer < run_.peer_count; ++peer) raise(run_.sent_end_flags[peer], 1);
    for (int peer = 0; peer < run_.peer_count; ++peer) {
      wait_until(run_.end_flags + peer, 1, run_.abort);
      run_.end_flags[peer] = 0;
    }
  }

  const TileRun& run_;
  const Shared<Shape>& shared_;
  Tickets<Shape> tickets_;
  long long tile_clocks_ = kLongest; ///< the shortest time that a tile has taken so far
  static constexpr long long kLongest = 1LL << 40;
};

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

/// A warpgroup that multiplies rows of a tile.
template <typename T, typename Shape, bool kIsBTransposed>
class Worker {
 public:
  __device__ Worker(const TileRun& run, const Shared<Shape>& shared, int number)
      : run_(run),
        shared_(shared),
        number_(number),
        thread_(threadIdx.x % hopper::kWarpgroup),
        row_(number * kTileRows / kWorkers + thread_ / 32 * 16 + thread_ % 16) {}

  __device__ void multiply_tiles() {
    std::uint32_t tile_phase = 1;
    Tickets<Shape> tickets(run_, shared_);
    for (int i = tickets.follow(); i < run_.tile_count; i = tickets.follow(), tile_phase ^= 1U) {
      multiply_tile();
      if (run_.tiles[i].distance == 0) add_pieces();
      hopper::wait(shared_.tile_empty(), tile_phase);
      put_down();
    }
  }

 private:
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
    constexpr std::uint32_t kAlongK = kProductDepth * 2;                // in rows that are contiguous along k
    constexpr std::uint32_t kAcrossK = kProductDepth * kBoxColumns * 2; // in boxes whose rows are k
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

  /// Where in a box the thread's row of the four matrices from column 8 j on lies: 8 rows, the 8 below them, and the
  /// same 8 columns further. 16 bytes each change places by row, as CU_TENSOR_MAP_SWIZZLE_128B has them.
  __device__ std::uint32_t row_offset(int j) const {
    return row_ * kBoxColumns * 2 + (((j + thread_ % 32 / 16) ^ (row_ & 7)) << 4);
  }

  __device__ void add_pieces() {
    int in_slot = 0;
#pragma unroll
    for (int box = 0; box < Shape::kTileBoxes; ++box) {
      for (int peer = 0; peer < run_.peer_count; ++peer) {
        if (in_slot == 0) hopper::wait(shared_.full(at_), at_.phase);
        add_box(box, shared_.slot(at_) + in_slot * kBoxBytes);
        const bool is_last = box + 1 == Shape::kTileBoxes && peer + 1 == run_.peer_count;
        if (++in_slot < Shape::kBoxesPerSlot && !is_last) continue;
        in_slot = 0;
        meet_own();
        leave(at_);
      }
    }
  }

  __device__ void add_box(int box, std::uint32_t from) {
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      std::uint32_t pairs[4];
      hopper::load_matrices(from + row_offset(j), pairs);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 pair = unpack(pairs[i], T{});
        sum_[(box * 8 + j) * 4 + i * 2] += pair.x;
        sum_[(box * 8 + j) * 4 + i * 2 + 1] += pair.y;
      }
    }
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

  const TileRun& run_;
  const Shared<Shape>& shared_;
  int number_, thread_, row_;
  Slot at_;
  float sum_[Shape::kSums];
};

template <typename T, typename Shape, bool kIsBTransposed>
__global__ void __launch_bounds__(kTileThreads, 1) tile_kernel(const __grid_constant__ TileRun run) {
  extern __shared__ std::uint8_t dynamic[];
  if (threadIdx.x == 32) {
    for (const CUtensorMap* tensor : {&run.a, &run.b, &run.c[0].bits}) hopper::prefetch(tensor);
    hopper::prefetch(run.tiles + blockIdx.x); // most likely the first
  }
  __shared__ Barriers<Shape> barriers;
  __shared__ int tickets[kTickets];
  const std::uint32_t base = (hopper::shared_address(dynamic) + kAlignment - 1) / kAlignment * kAlignment;
  const Shared<Shape> shared{base, base + Shape::kSlots * Shape::kSlotBytes, &barriers, tickets};
  if (threadIdx.x == 0) {
    for (typename Shared<Shape>::Slot at; at.phase == 0; at.next()) {
      hopper::init_barrier(shared.full(at), 1);
      hopper::init_barrier(shared.empty(at), kWorkers);
    }
    hopper::init_barrier(shared.tile_full(), kWorkers);
    hopper::init_barrier(shared.tile_empty(), 1);
    for (int i = 0; i < kTickets; ++i) {
      hopper::init_barrier(hopper::shared_address(&barriers.ticket_full[i]), 1);
      // and the storing thread
      hopper::init_barrier(hopper::shared_address(&barriers.ticket_empty[i]), kWorkers * hopper::kWarpgroup + 1);
    }
    hopper::order_shared_with_bulk_copies();
  }
  __syncthreads();
  const int warpgroup = threadIdx.x / hopper::kWarpgroup;
  if (warpgroup == 0) {
    hopper::give_registers_up<40>();
    if (threadIdx.x == 0) load_tiles<Shape, kIsBTransposed>(run, shared);
    if (threadIdx.x == 32) Storer<Shape>(run, shared).store_tiles();
  } else {
    hopper::take_registers<232>();
    Worker<T, Shape, kIsBTransposed>(run, shared, warpgroup - 1).multiply_tiles();
  }
}

template <typename T, typename Shape>
TileKernel kernel_of(bool b_is_transposed) {
  const auto function = b_is_transposed ? tile_kernel<T, Shape, true> : tile_kernel<T, Shape, false>;
  MC2_CUDA(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kDynamicBytes));
  return {.function = function, .shared_bytes = Shape::kDynamicBytes};
}

template <typename T>
TileKernel kernel_of(int tile_columns, bool b_is_transposed) {
  return tile_columns == kWideTile ? kernel_of<T, TileShape<kWideTile>>(b_is_transposed)
                                   : kernel_of<T, TileShape<kNarrowTile>>(b_is_transposed);
}

} // namespace

TileKernel tile_kernel_of(bool is_half, int tile_columns, bool b_is_transposed) {
  return is_half ? kernel_of<__half>(tile_columns, b_is_transposed)
                 : kernel_of<__nv_bfloat16>(tile_columns, b_is_transposed);
}

void enqueue_tiles(const TileKernel& kernel, const TileRun& run, int cta_count, cudaStream_t stream) {
  TileRun argument = run;
  std::array<void*, 1> arguments{&argument};
  const auto grid = static_cast<unsigned>(std::min(cta_count, run.tile_count));
  MC2_CUDA(cudaLaunchKernel(kernel.function, grid, kTileThreads, arguments.data(),
                            static_cast<std::size_t>(kernel.shared_bytes), stream));
}

} // namespace mc2::executor::cuda
