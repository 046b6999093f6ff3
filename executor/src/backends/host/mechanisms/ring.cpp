#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "backends/host/mechanisms/mechanism.hpp"
#include "backends/host/mechanisms/waiting.hpp"
#include "lanes/combine.hpp"
#include "lanes/symmetric_heap.hpp"
#include "range.hpp"

namespace mc2::executor::host {
namespace {

constexpr std::int64_t kPartElements = std::int64_t{8} << 10U; ///< elements of one rank's part of a slice
constexpr std::int64_t kRingSlotBytes = kPartElements * static_cast<std::int64_t>(sizeof(float));
constexpr std::uint32_t kRingSlotCount =
    4; ///< slots of one lane's buffer; two suffice for progress, more let a rank run ahead

/// A slice consists of R parts, one per rank. Part c is summed along the ranks c + 1, c + 2, ..., c; in an all-reduce
/// the finished sum then travels on to c + 1, ..., c - 1. In step t rank r handles part r - 1 - t.
class Ring final : public Transport {
 public:
  Ring(int world_size, int lane_count)
      : world_size_(world_size),
        lane_count_(lane_count),
        buffers_(world_size, static_cast<std::size_t>(ring_bytes(world_size, lane_count) / world_size)),
        ranks_(static_cast<std::size_t>(world_size)) {
    for (Rank& rank : ranks_) {
      rank.channels = std::vector<Channel>(static_cast<std::size_t>(lane_count));
      rank.cursors.resize(static_cast<std::size_t>(lane_count));
    }
  }

  // A rank starts with its own products; its neighbour's partial sums arrive through the ring.
  [[nodiscard]] bool reads_peers_directly() const noexcept override { return false; }

  void begin_run(lanes::Clock::time_point /*start*/) noexcept override {
    for (Rank& rank : ranks_) {
      rank.activity.reset();
      rank.entered.store(0, std::memory_order_relaxed);
      for (Channel& channel : rank.channels) {
        channel.filled.store(0, std::memory_order_relaxed);
        channel.drained.store(0, std::memory_order_relaxed);
      }
    }
  }

  lanes::ExchangeTimes exchange(const lanes::BlockExchange& block, const lanes::RunControl& control) override {
    control.throw_if_aborted();
    const auto start = lanes::Clock::now();
    const Job job = job_of(block);
    Rank& own = rank_of(block.rank);
    own.entered.fetch_add(1, std::memory_order_relaxed);
    for (int lane = 0; lane < lane_count_; ++lane) own.cursors[static_cast<std::size_t>(lane)] = {lane, 0};
    for (bool is_finished = false; !is_finished;) {
      const std::uint32_t seen = own.activity.count();
      bool has_moved = false;
      is_finished = true;
      for (int lane = 0; lane < lane_count_; ++lane) {
        while (try_step(job, lane)) has_moved = true;
        is_finished = is_finished && own.cursors[static_cast<std::size_t>(lane)].slice >= job.slice_count;
      }
      if (is_finished || has_moved) continue;
      await(own.activity, seen + 1, control,
            [&] { return lanes::awaited_piece(block.rank, block.block, last_to_enter(block.rank)); });
    }
    return {start, lanes::Clock::now()};
  }

  void abort() noexcept override {
    for (Rank& rank : ranks_) rank.activity.poison();
  }

 private:
  /// The bounded buffer of one lane in front of a rank. Slot numbers count up without end; slot i lies at place i
  /// modulo kRingSlotCount.
  struct alignas(64) Channel {
    std::atomic<std::uint32_t> filled{0};              ///< slots that the previous rank has written in this run
    alignas(64) std::atomic<std::uint32_t> drained{0}; ///< slots that this rank has read
  };
  /// The progress of a lane in the present block.
  struct Cursor {
    std::int64_t slice = 0;
    int step = 0;
  };
  struct alignas(64) Rank {
    std::vector<Channel> channels;         ///< by lane
    std::vector<Cursor> cursors;           ///< by lane; used by this rank only
    std::atomic<std::uint32_t> entered{0}; ///< blocks of this run that this rank has begun
    lanes::Signal activity; ///< raised when the previous rank fills a slot here or the next rank frees one
  };
  struct Job {
    const lanes::BlockExchange* block = nullptr;
    bool is_all_reduce = false;
    std::int64_t slice_elements = 0;
    std::int64_t slice_count = 0;
    int step_count = 0;
  };
  struct Part {
    const std::byte* own = nullptr; ///< this rank's contribution
    std::byte* result = nullptr;
    std::int64_t count = 0;
  };

  Rank& rank_of(int rank) noexcept { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int next(int rank) const noexcept { return (rank + 1) % world_size_; }
  [[nodiscard]] int previous(int rank) const noexcept { return (rank + world_size_ - 1) % world_size_; }

  /// The rank that keeps `rank` waiting: the rank that has begun the fewest blocks, or the previous rank if all are
  /// equal.
  [[nodiscard]] int last_to_enter(int rank) const noexcept {
    int last = previous(rank);
    const auto entered = [&](int of) {
      return ranks_[static_cast<std::size_t>(of)].entered.load(std::memory_order_relaxed);
    };
    for (int other = 0; other < world_size_; ++other) {
      if (entered(other) < entered(last)) last = other;
    }
    return last;
  }

  /// In an all-reduce a rank sends the same piece to all ranks, so its first and last outgoing addresses are equal;
  /// otherwise the operator is a reduce-scatter.
  [[nodiscard]] Job job_of(const lanes::BlockExchange& block) const {
    Job job{.block = &block};
    job.is_all_reduce = block.pieces->outgoing.front() == block.pieces->outgoing.back();
    job.slice_elements = job.is_all_reduce ? kPartElements * world_size_ : kPartElements;
    job.slice_count = (block.element_count + job.slice_elements - 1) / job.slice_elements;
    job.step_count = job.is_all_reduce ? 2 * world_size_ - 1 : world_size_;
    return job;
  }

  [[nodiscard]] Part part_of(const Job& job, const Cursor& at) const {
    const lanes::BlockExchange& block = *job.block;
    const std::int64_t element_bytes = planner::size_bytes(block.dtype);
    const int part = ((block.rank - 1 - at.step) % world_size_ + world_size_) % world_size_;
    const std::int64_t first = at.slice * job.slice_elements;
    const Range slice{first, std::min(job.slice_elements, block.element_count - first)};
    const Range range = job.is_all_reduce ? executor::part_of(slice, part, world_size_) : slice;
    return {block.pieces->outgoing[static_cast<std::size_t>(part)] + range.first * element_bytes,
            block.sum.first + range.first * element_bytes, range.count};
  }

  /// Makes the lane's next step. Returns false if there is nothing to read yet or no free slot to write to.
  bool try_step(const Job& job, int lane) {
    Rank& own = rank_of(job.block->rank);
    Rank& after = rank_of(next(job.block->rank));
    Cursor& cursor = own.cursors[static_cast<std::size_t>(lane)];
    if (cursor.slice >= job.slice_count) return false;
    Channel& in = own.channels[static_cast<std::size_t>(lane)];
    Channel& out = after.channels[static_cast<std::size_t>(lane)];
    const bool reads = cursor.step > 0, writes = cursor.step + 1 < job.step_count;
    const std::uint32_t in_slot = in.drained.load(std::memory_order_relaxed);
    const std::uint32_t out_slot = out.filled.load(std::memory_order_relaxed);
    if (reads && in.filled.load(std::memory_order_acquire) == in_slot) return false;
    if (writes && out_slot - out.drained.load(std::memory_order_acquire) == kRingSlotCount) return false;
    move_part(job, cursor, slot(job.block->rank, lane, in_slot), slot(next(job.block->rank), lane, out_slot));
    if (reads) {
      in.drained.store(in_slot + 1, std::memory_order_release);
      rank_of(previous(job.block->rank)).activity.add();
    }
    if (writes) {
      out.filled.store(out_slot + 1, std::memory_order_release);
      after.activity.add();
    }
    if (++cursor.step == job.step_count) cursor = {cursor.slice + lane_count_, 0};
    return true;
  }

  void move_part(const Job& job, const Cursor& at, const std::byte* in, std::byte* out) const {
    const Part part = part_of(job, at);
    const planner::DType dtype = job.block->dtype;
    const auto byte_count = static_cast<std::size_t>(part.count * planner::size_bytes(dtype));
    const auto* partial = reinterpret_cast<const float*>(in);
    if (at.step == 0) {
      lanes::widen(dtype, part.own, reinterpret_cast<float*>(out), part.count);
    } else if (at.step < world_size_ - 1) {
      lanes::add_to_partial(dtype, partial, part.own, reinterpret_cast<float*>(out), part.count);
    } else {
      if (at.step == world_size_ - 1) {
        lanes::finish_sum(dtype, partial, part.own, part.result, part.count);
      } else {
        std::memcpy(part.result, in, byte_count);
      }
      if (at.step + 1 < job.step_count) std::memcpy(out, part.result, byte_count);
    }
  }

  [[nodiscard]] std::byte* slot(int rank, int lane, std::uint32_t index) const noexcept {
    const std::int64_t at = static_cast<std::int64_t>(lane) * kRingSlotCount + index % kRingSlotCount;
    return buffers_.segment(rank).data() + at * kRingSlotBytes;
  }

  int world_size_;
  int lane_count_;
  lanes::SymmetricHeap buffers_;
  std::vector<Rank> ranks_;
};

} // namespace

std::int64_t ring_bytes(int world_size, int lane_count) noexcept {
  return std::int64_t{world_size} * lane_count * kRingSlotCount * kRingSlotBytes;
}

std::unique_ptr<Transport> make_ring(int world_size, int lane_count) {
  return std::make_unique<Ring>(world_size, lane_count);
}

} // namespace mc2::executor::host
