#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "mc2/planner/units.hpp"
#include "node/node_heap.hpp"
#include "node/shared_signal.hpp"

namespace mc2::executor::node {

/// What a call of a collective is about; ranks that call together have equal ones.
struct Call {
  enum class Kind : std::uint8_t { AllReduce, ReduceScatter, AllGather, AllToAll };
  Kind kind = Kind::AllReduce;
  planner::DType dtype = planner::DType::I8; ///< of sums
  std::size_t byte_count = 0;                ///< all_reduce: of the data; others: of what passes between two ranks
  bool operator==(const Call&) const = default;
};

/// Whom a rank adds with: first with those near the same memory, then with one rank of each other NUMA node, so that of
/// a sum of n bytes of f32 2 n pass between two of them, and not n for each rank.
struct Neighbours {
  std::vector<int> near;         ///< ranks of this rank's node, ascending, itself too
  std::vector<int> counterparts; ///< of each node the rank in this rank's place, itself too
};

/// @param nodes  of each rank, -1 where it is not known. All ranks are near where there is one node, or a node is not
///               known, has one rank alone or more than another: then each adds what all ranks have.
[[nodiscard]] Neighbours neighbours_of(int rank, std::span<const int> nodes);

/// Where a part of `count` bytes starts, of about as many bytes each: whole cache lines, and so whole elements.
[[nodiscard]] std::size_t part_start(std::size_t count, int part, int part_count) noexcept;

/// One thread's share of all collectives of a rank: it meets the same lane of the other ranks, and no other. What
/// passes does so in steps, each of at most `kSlotBytes` of a rank, through two slots of the rank's memory by turns,
/// and a node's sums through two more. No step waits before it writes: a rank that has announced a step has read all of
/// the step before last, and every step waits for all announcements.
class Lane {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{1} << 20U;
  /// Of a rank's segment, for one lane.
  [[nodiscard]] static std::size_t segment_bytes() noexcept;

  /// Order: before any rank's first call.
  /// @param heap  has a segment of `index + 1` lanes at least, and outlives this
  /// @param pause while this waits for a rank, since when it has; throws to give up
  /// @param looks how often it looks before it yields its core
  using Clock = std::chrono::steady_clock;
  using PeerPause = std::function<void(int peer, Clock::time_point since)>;
  Lane(const NodeHeap& heap, int rank, std::span<const int> nodes, int index, PeerPause pause, int looks);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Bytes [first, first + count) of each part that Call::byte_count counts: `in` and `out` are whole. Of sums first
  /// and count are whole elements. Throws what pause throws; SystemError where another rank calls something else.
  void all_reduce(const Call& call, std::byte* data, std::size_t first, std::size_t count);
  void reduce_scatter(const Call& call, const std::byte* in, std::byte* out, std::size_t first, std::size_t count);
  void all_gather(const Call& call, const std::byte* in, std::byte* out, std::size_t first, std::size_t count);
  void all_to_all(const Call& call, const std::byte* in, std::byte* out, std::size_t first, std::size_t count);

 private:
  struct Shared;

  void begin_step() noexcept { ++step_; }
  void announce(const Call& call);
  void wait_for(int peer, const Call& call);
  void wait_for(int peer, const SharedSignal& signal, std::uint32_t count);
  void announce_and_wait(const Call& call);
  [[nodiscard]] std::byte* slot(int rank) const noexcept;
  [[nodiscard]] std::byte* node_sums(int rank) const noexcept; ///< as slot()
  /// Short floats' sums take twice their room, of which a near rank needs half at most.
  [[nodiscard]] std::size_t node_sum_stride() const noexcept { return kSlotBytes / neighbours_.counterparts.size(); }
  [[nodiscard]] bool is_of_several_nodes() const noexcept { return neighbours_.counterparts.size() > 1; }
  [[nodiscard]] int peer(int step) const noexcept;
  void sum_whole(const Call& call, std::byte* data, std::size_t count);
  void sum_parts(const Call& call, std::byte* data, std::size_t count);
  /// The sum of what `ranks` have: this one at `own`, the others in their slots from `offset` on.
  [[nodiscard]] std::span<const std::byte* const> sources(std::span<const int> ranks, std::size_t offset,
                                                          const std::byte* own);
  /// What the near ranks have is made the `index`-th sum of this node; `own` and offset as for sources().
  void sum_near(planner::DType dtype, std::size_t offset, const std::byte* own, std::size_t index, std::size_t bytes);
  /// The `index`-th sums of all nodes are added to `out`, when they are there.
  void sum_nodes(planner::DType dtype, std::byte* out, std::size_t index, std::size_t bytes);

  int rank_, world_size_;
  std::vector<int> all_; ///< ranks
  Neighbours neighbours_;
  int place_; ///< among the near ranks
  Pause pause_;
  int peer_ = 0; ///< that is waited for
  std::optional<Clock::time_point> waits_since_;
  int looks_;
  std::vector<Shared*> shared_;           ///< by rank
  std::vector<const std::byte*> sources_; ///< of the sum that is being made, by rank
  std::uint32_t step_ = 0, summed_ = 0, node_summed_ = 0;
};

} // namespace mc2::executor::node
