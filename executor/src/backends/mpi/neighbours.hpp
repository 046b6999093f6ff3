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

/// What a rank announces to the other ranks of its node. Each signal counts the blocks that have been announced.
struct Announcements {
  node::SharedSignal ready;  ///< its product can be read, or its rows of A are written
  node::SharedSignal summed; ///< its part of the sum can be read
};

/// The ranks of a node, which have mapped each other's memory. A rank is given by its place, its index in the node's
/// heap. Threads: used by the communication lane only.
class Neighbours {
 public:
  /// Order: made before the first run, which starts when all ranks have come.
  /// @param heap    outlives *this
  /// @param signals offset of the Announcements in a segment
  /// @param own     this rank's place
  /// @param ranks   by place; outlives *this
  /// @param sleep   interval between calls of `pause` in waits that sleep
  Neighbours(const node::NodeHeap& heap, std::size_t signals, int own, const std::vector<int>& ranks,
             std::chrono::microseconds sleep = node::SharedSignal::kLongSleep);

  [[nodiscard]] int own() const noexcept { return own_; }
  [[nodiscard]] int rank_at(int place) const noexcept { return ranks_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(announcements_.size()); }
  /// The places of the other ranks, one for each `step` from 0 to count() - 2. In the same step different ranks get
  /// different places.
  [[nodiscard]] int other(int step) const noexcept;
  /// The address in the segment of `place` that corresponds to `own`, an address in this rank's segment.
  [[nodiscard]] std::byte* at(int place, const std::byte* own) const noexcept { return heap_.of_peer(place, own); }
  /// Copies this rank's pieces for the others to their landings.
  void push(const lanes::PieceAddresses& pieces) const noexcept;

  void begin_block() noexcept { ++block_count_; }
  /// Announces the block that has begun.
  void announce() noexcept { of(own_).ready.add(); }
  void announce_sum() noexcept { of(own_).summed.add(); }
  /// Waits for the announcement of the block that has begun. Throws what `pause` throws.
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
  std::uint32_t block_count_ = 0; ///< blocks begun so far
  std::chrono::microseconds sleep_;
  std::vector<Announcements*> announcements_; ///< by place
};

} // namespace mc2::executor::mpi
