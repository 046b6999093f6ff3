#include <algorithm>

#include "backends/cuda/kernels/kernels.cuh"
#include "backends/cuda/tiles/tile_kernel.hpp"
#include "backends/cuda/tiles/tile_pipeline.cuh"

// One kernel multiplies all tiles. It hands over the tiles that other ranks sum, sums the others with the pieces of its
// peers, and stores the sums in the rank's own C or in every rank's C. One thread does the storing.
//
// Other ranks' tiles of a block wait for nothing and come before the own tiles of the block before. So the thread
// blocks of a rank that have an SM, however few they are, make everything that peers wait for, even if other kernels
// take the rest.
namespace mc2::executor::cuda {

/// How many boxes of kBitRows rows of A the tile has. Rows beyond A's last are not loaded: a box of them takes longer
/// than a box of rows that exist, and longer than the products of a narrow tile. The products of missing rows are not
/// stored.
__device__ inline int a_bit_count(const TileRun& run, const Tile& tile) {
  return min(kABits, (run.a_row_count - tile.a_row + kBitRows - 1) / kBitRows);
}

__device__ inline void load_b(std::uint32_t to, const TileRun& run, const Tile& /*tile*/, BoxPlace at,
                              std::uint32_t full) {
  hopper::load_box(to, &run.b, at.x, at.y, full);
}

namespace {

/// Loads the peers' pieces of an own tile, box by box and in each box peer by peer, as many at a time as fit a slot.
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
        *flag = 0; // the peer raises the flag again in the next run, after the ranks have met
        hopper::order_with_bulk_copies();
      }
      hopper::load_bytes(shared.slot(at) + i * kBoxBytes,
                         run.arrived + (place + tile.index) * Shape::kTileBytes + box * kBoxBytes, kBoxBytes,
                         shared.full(at));
    }
  }
}

/// The thread that stores tiles as the workers put them down.
template <typename Shape>
class Storer {
 public:
  __device__ Storer(const TileRun& run, const Shared<Shape>& shared)
      : run_(run), shared_(shared), tickets_(run, shared) {}

  __device__ void store_tiles() {
    std::uint32_t phase = 0;
    long long before = clock64();
    for (int i = tickets_.follow(); i < shared_.tile_count(); phase ^= 1U) {
      const Tile tile = run_.tiles[i];
      hopper::wait(shared_.tile_full(), phase);
      const long long now = clock64();
      tile_clocks_ = min(tile_clocks_, now - before);
      before = now;
      i = tickets_.follow();
      const bool is_last = i >= shared_.tile_count();
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

  /// Stores `count` pieces one after the other, spread over 4/5 of `clocks`. A piece takes 0.2 us whatever its size up
  /// to kBitBytes; a box takes as long as two bits.
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

  /// Stores a tile in bits over most of `clocks`. All tiles of a wave at once would fill the links, and whatever waits
  /// for links or memory delays the loads of all SMs. The last tile is stored in boxes, because nothing runs beside it.
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

  /// The rank's last thread block tells the peers that the rank has stored all its tiles in their C, and waits for the
  /// same from them.
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
  Tickets<Shape, TileRun> tickets_;
  long long tile_clocks_ = kLongest; ///< shortest time of a tile so far
  static constexpr long long kLongest = 1LL << 40;
};

template <typename T, typename Shape, bool kIsBTransposed>
class SummingWorker : TileWorker<T, Shape, kIsBTransposed, TileRun> {
  using Base = TileWorker<T, Shape, kIsBTransposed, TileRun>;

 public:
  __device__ SummingWorker(const TileRun& run, const Shared<Shape>& shared, int number) : Base(run, shared, number) {}

  __device__ void sum_tiles() {
    this->multiply_tiles([&](const Tile& tile) {
      if (tile.distance == 0) add_pieces();
    });
  }

 private:
  __device__ void add_pieces() {
    int in_slot = 0;
#pragma unroll
    for (int box = 0; box < Shape::kTileBoxes; ++box) {
      for (int peer = 0; peer < this->run_.peer_count; ++peer) {
        if (in_slot == 0) hopper::wait(this->shared_.full(this->at_), this->at_.phase);
        add_box(box, this->shared_.slot(this->at_) + in_slot * kBoxBytes);
        const bool is_last = box + 1 == Shape::kTileBoxes && peer + 1 == this->run_.peer_count;
        if (++in_slot < Shape::kBoxesPerSlot && !is_last) continue;
        in_slot = 0;
        this->meet_own();
        this->leave(this->at_);
      }
    }
  }

  __device__ void add_box(int box, std::uint32_t from) {
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      std::uint32_t pairs[4];
      hopper::load_matrices(from + this->row_offset(j), pairs);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 pair = unpack(pairs[i], T{});
        this->sum_[(box * 8 + j) * 4 + i * 2] += pair.x;
        this->sum_[(box * 8 + j) * 4 + i * 2 + 1] += pair.y;
      }
    }
  }
};

template <typename T, typename Shape, bool kIsBTransposed>
__global__ void __launch_bounds__(kTileThreads, 1) tile_kernel(const __grid_constant__ TileRun run) {
  extern __shared__ std::uint8_t dynamic[];
  if (threadIdx.x == 32) {
    for (const CUtensorMap* tensor : {&run.a, &run.b, &run.c[0].bits}) hopper::prefetch(tensor);
    hopper::prefetch(run.tiles + blockIdx.x); // most likely this block's first tile
  }
  __shared__ Barriers<Shape> barriers;
  __shared__ int tickets[kTickets + 1];
  const Shared<Shape> shared = set_up<Shape>(dynamic, barriers, tickets, run.tile_count);
  const int warpgroup = threadIdx.x / hopper::kWarpgroup;
  if (warpgroup == 0) {
    hopper::give_registers_up<40>();
    bool is_aborted = false;
    if (threadIdx.x == 0) {
      load_tiles<Shape, kIsBTransposed>(run, shared, [&](const Tile& tile, typename Shared<Shape>::Slot& at) {
        if (tile.distance == 0) load_pieces(run, tile, shared, at, is_aborted);
      });
    }
    if (threadIdx.x == 32) Storer<Shape>(run, shared).store_tiles();
  } else {
    hopper::take_registers<232>();
    SummingWorker<T, Shape, kIsBTransposed>(run, shared, warpgroup - 1).sum_tiles();
  }
}

struct TileKernels {
  template <typename T, typename Shape, bool kIsBTransposed>
  static void (*instance())(TileRun) {
    return tile_kernel<T, Shape, kIsBTransposed>;
  }
};

} // namespace

TileKernel tile_kernel_of(bool is_half, int tile_columns, bool b_is_transposed) {
  return kernel_of<TileRun, TileKernels>(is_half, tile_columns, b_is_transposed);
}

void enqueue_tiles(const TileKernel& kernel, const TileRun& run, int cta_count, cudaStream_t stream) {
  launch(kernel, run, std::min(cta_count, run.tile_count), stream);
}

} // namespace mc2::executor::cuda
