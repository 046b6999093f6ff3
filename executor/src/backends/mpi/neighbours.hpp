#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lanes/block_exchange.hpp"
#include "node/node_heap.hpp"
#include "node/shared_signal.hpp"

namespace mc2::executor::mpi {

using node::Pause;

/// What a rank announces to the others of its node, each with a count of the blocks for which it has.
struct Announcements {
  node::SharedSignal ready;  ///< its product can be read, or its rows of A are written
  node::SharedSignal summed; ///< its part of the sum can be read
};

/// The ranks of a node, which have mapped each other's memory; by place, as the heap counts them. Used by the
/// communication lane's thread only.
class Neighbours {
 public:
  /// Order: before the first run, which starts when all ranks have come.
  /// @param heap    outlives this
  /// @param signals where a segment has its Announcements
  /// @param own     this rank's place
  /// @param ranks   by place; outlives this
  /// @param sleep   how often waits call `pause` once they sleep
  Neighbours(const node::NodeHeap& heap, std::size_t signals, int own, const std::vector<int>& ranks,
             std::chrono::microseconds sleep = node::SharedSignal::kLongSleep);

  [[nodiscard]] int own() const noexcept { return own_; }
  [[nodiscard]] int rank_at(int place) const noexcept { return ranks_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(announcements_.size()); }
  /// The other ranks' places, one for each `step` from 0 to count() - 2; at every step each is another's.
  [[nodiscard]] int other(int step) const noexcept;
  /// Where that rank has what this one has at `own`, an address in this one's segment.
  [[nodiscard]] std::byte* at(int place, const std::byte* own) const noexcept { return heap_.of_peer(place, own); }
  /// Writes what this rank sends the others to where it lands.
  void push(const lanes::PieceAddresses& pieces) const noexcept;

  void begin_block() noexcept { ++block_count_; }
  /// Of the block that has begun.
  void announce() noexcept { of(own_).ready.add(); }
  void announce_sum() noexcept { of(own_).summed.add(); }
  /// Throws what `pause` throws.
  void wait_for(int place, const Pause& pause) { wait(of(place).ready, pause); }
  void wait_for_all(const Pause& pause);
  void wait_for_sum(int place, const Pause& pause) { wait(of(place).summed, pause); }

 private:
  [[nodiscard]] Announcements& of(int place) noexcept { return *announcements_[static_cast<std::size_t>(place)]; }
  void wait(const node::SharedSignal& signal, const Pause& pause) const {
    signal.wait_for(block_count_, pause, node::SharedSignal::kFewLooks, sleep_);
  }

  const node::NodeHeap& heap_;
  int own_;
  std::span<const int> ranks_;
  std::uint32_t block_count_ = 0; ///< begun so far
  std::chrono::microseconds sleep_;
  std::vector<Announcements*> announcements_; ///< by place
};

/// Adds pieces up, in the order in which they are given, in f32 and rounded once; allocates nothing.
class PieceSum {
 public:
  explicit PieceSum(std::size_t most_pieces) { f32_pieces_.reserve(most_pieces); }

  /// @param pieces       of `count` elements each
  /// @param is_read_next by other ranks: it had better stay in the caches
  void operator()(planner::DType dtype, std::span<const std::byte* const> pieces, const lanes::SumTarget& target,
                  std::int64_t count, bool is_read_next = false);

 private:
  std::vector<const float*> f32_pieces_;
};

} // namespace mc2::executor::mpi
