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

/// A call of a collective. Ranks that call together must have equal ones.
struct Call {
  enum class Kind : std::uint8_t { AllReduce, ReduceScatter, AllGather, AllToAll };
  Kind kind = Kind::AllReduce;
  planner::DType dtype = planner::DType::I8; ///< element type of sums
  std::size_t byte_count = 0;                ///< all_reduce: bytes of the data; others: bytes between two ranks
  bool operator==(const Call&) const = default;
};

/// The ranks that a rank adds with: first those of its own NUMA node, then one rank of each other node. For a sum of n
/// bytes of f32, 2 n bytes then pass between two nodes, instead of n bytes for each rank.
struct Neighbours {
  std::vector<int> near;         ///< ranks of this rank's node, ascending, itself included
  std::vector<int> counterparts; ///< the rank of each node that has this rank's place there, itself included
};

/// The neighbours of a rank. If there is one node only, or a node is unknown, has a single rank, or has more ranks than
/// another, then all ranks count as near, and each rank adds up the data of all.
/// @param nodes  the NUMA node of each rank; -1: unknown
[[nodiscard]] Neighbours neighbours_of(int rank, std::span<const int> nodes);

/// Divides `count` bytes into about equal parts of whole cache lines, and so of whole elements; returns where a part
/// starts.
[[nodiscard]] std::size_t part_start(std::size_t count, int part, int part_count) noexcept;

/// Parts of data begin at multiples of a cache line, which has a whole number of elements.
inline constexpr std::size_t kPartAlignment = 64;

/// One thread's share of the collectives of a rank. It exchanges data only with the lanes of the same index of other
/// ranks. Data pass in steps of at most `kSlotBytes` per rank, alternately through two slots in the rank's memory; sums
/// of a node pass through two further slots. A step may write its slot without waiting: a rank announces a step only
/// after it has read everything of the step before last, and every step ends with a wait for all announcements.
class Lane {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{1} << 20U;
  /// The bytes that one lane needs in a rank's segment.
  [[nodiscard]] static std::size_t segment_bytes() noexcept;

  /// Order: before any rank's first call.
  /// @param heap   its segments have room for at least `index + 1` lanes; must outlive *this
  /// @param pause  called while this waits for a rank, with the time since when; throws to give up
  /// @param looks  how often a wait looks before it yields its core
  using Clock = std::chrono::steady_clock;
  using PeerPause = std::function<void(int peer, Clock::time_point since)>;
  Lane(const NodeHeap& heap, int rank, std::span<const int> nodes, int index, PeerPause pause, int looks);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// This lane's share of a call: bytes [first, first + count) of each part that Call::byte_count counts. `in` and
  /// `out` point to the whole data. In sums, first and count are multiples of an element. Throws what `pause` throws,
  /// and SystemError if another rank makes another call.
  void all_reduce(const Call& call, std::byte* data, std::size_t first, std::size_t count);
  void reduce_scatter(const Call& call, const std::byte* in, std::byte* out, std::size_t first, std::size_t count);
  void all_gather(const Call& call, const std::byte* in, std::byte* out, std::size_t first, std::size_t count);
  void all_to_all(const Call& call, const std::byte* in, std::byte* out, std::size_t first, std::size_t count);

 private:
  struct Shared;

  template <typename Step>
  void in_steps(std::size_t first, std::size_t count, std::size_t most, const Step& step);
  void announce(const Call& call);
  void wait_for(int peer, const Call& call);
  void wait_for(int peer, const SharedSignal& signal, std::uint32_t count);
  void announce_and_wait(const Call& call);
  [[nodiscard]] std::byte* slot(int rank) const noexcept;
  [[nodiscard]] std::byte* node_sums(int rank) const noexcept; ///< the rank's slot for sums of its node
  /// The distance between the sums of a slot. A step's unrounded sums fit: those of short floats take twice the bytes
  /// of the data, but a rank makes at most half of its node's sums.
  [[nodiscard]] std::size_t node_sum_stride() const noexcept {
    return kSlotBytes / neighbours_.counterparts.size() / kPartAlignment * kPartAlignment;
  }
  /// The most bytes of a part in steps whose slot has a part for each rank.
  [[nodiscard]] std::size_t most_part_bytes() const noexcept {
    return kSlotBytes / all_.size() / kPartAlignment * kPartAlignment;
  }
  [[nodiscard]] bool is_of_several_nodes() const noexcept { return neighbours_.counterparts.size() > 1; }
  [[nodiscard]] int peer(int step) const noexcept;
  void sum_whole(const Call& call, std::byte* data, std::size_t count);
  void sum_parts(const Call& call, std::byte* data, std::size_t count);
  /// The addresses of data to be summed, by rank: this rank's at `own`, the others' in their slots from `offset` on.
  [[nodiscard]] std::span<const std::byte* const> sources(std::span<const int> ranks, std::size_t offset,
                                                          const std::byte* own);
  /// Sums the near ranks' data into this rank's slot, as the `index`-th sum of the node. `own` and `offset` as for
  /// sources().
  void sum_near(planner::DType dtype, std::size_t offset, const std::byte* own, std::size_t index, std::size_t bytes);
  /// Waits for the counterparts and sums the `index`-th sums of all nodes into `out`.
  void sum_nodes(planner::DType dtype, std::byte* out, std::size_t index, std::size_t bytes);

  int rank_, world_size_;
  std::vector<int> all_; ///< all ranks
  Neighbours neighbours_;
  int place_; ///< this rank's index among the near ranks
  Pause pause_;
  int peer_ = 0; ///< the rank that this waits for
  std::optional<Clock::time_point> waits_since_;
  int looks_;
  std::vector<Shared*> shared_;           ///< by rank
  std::vector<const std::byte*> sources_; ///< addresses of the data of the present sum
  std::uint32_t step_ = 0, summed_ = 0, node_summed_ = 0;
};

} // namespace mc2::executor::node
