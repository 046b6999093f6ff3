#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"

namespace mc2::executor::node {

/// How processes of one node, a rank each, tell one another where their memory is. Both functions are *collective* over
/// all ranks of the job, also those of other nodes.
struct Meeting {
  int rank = 0;       ///< this rank's number among the node's ranks, from 0
  int world_size = 0; ///< number of ranks on the node
  std::function<std::vector<std::int64_t>(std::int64_t own)> gather; ///< every rank's number, by rank
  std::function<Result<void>(const Result<void>& own)> share_error;  ///< the first error by rank, on every rank
  std::vector<int> names = {};                                       ///< by rank: the rank in errors; empty: its number
};

/// A symmetric heap of ranks that are processes of one node: every rank has mapped every rank's segment. The memory is
/// anonymous, and other ranks open it through /proc. So its size is not limited by /dev/shm, which has 64 MiB in many
/// containers, and a killed rank leaves nothing behind. Destroying it needs no other rank.
class NodeHeap {
 public:
  /// Order: collective over all ranks, with the same size.
  /// Errors: Unsupported, the same on every rank, when a rank cannot map another's memory. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<NodeHeap>> create(const Meeting& meeting, std::size_t bytes_per_rank);
  ~NodeHeap();
  NodeHeap(const NodeHeap&) = delete;
  NodeHeap& operator=(const NodeHeap&) = delete;

  /// The memory of a rank. It is zero until it is first written. Every rank may read and write it.
  [[nodiscard]] std::span<std::byte> segment(int rank) const noexcept {
    return {segments_[static_cast<std::size_t>(rank)], byte_count_};
  }
  /// The address in another rank's segment with the same offset as `own` has in this rank's segment.
  [[nodiscard]] std::byte* of_peer(int rank, const std::byte* own) const noexcept {
    return segments_[static_cast<std::size_t>(rank)] + (own - own_segment_);
  }

 private:
  NodeHeap(int world_size, std::size_t bytes_per_rank);
  [[nodiscard]] Result<void> map(int rank, const std::string& name, std::int64_t address);

  std::size_t byte_count_;
  std::vector<std::byte*> segments_; ///< by rank; null until mapped
  const std::byte* own_segment_ = nullptr;
};

} // namespace mc2::executor::node
