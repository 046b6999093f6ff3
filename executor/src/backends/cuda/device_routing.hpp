#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/runtime/device_pool.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "backends/cuda/tiles/routing.hpp"
#include "mc2/executor/buffer.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::cuda {

/// The counts of rows of a rank in a plan whose runs read them on the device. Tells them to all ranks, and makes from
/// all ranks' counts the lists of rows that the rank's kernels copy and of tiles that they multiply. The host does not
/// know the counts.
class DeviceRouting {
 public:
  /// @param pool pool of the rank's device, outlives *this
  /// Throws SystemError.
  DeviceRouting(const planner::OpSpec& op, int rank, DevicePool& pool);

  /// Memory that peers write. set_tables() must be called with every rank's table before anything is enqueued.
  [[nodiscard]] std::byte* table() const noexcept { return table_->bytes().data(); }
  void set_tables(std::span<std::byte* const> of_rank) noexcept;
  void set_lists(std::span<const RoutedList> lists, DevicePool& pool);

  /// Enqueues the telling of this rank's counts, before the ranks meet.
  /// @param own  counts, [to, expert]
  void enqueue_telling(std::span<const std::byte> own, cudaStream_t stream) const;
  /// Enqueues the making of the lists, after the ranks have met.
  /// @param c  becomes NaN if a count is illegal
  void enqueue_lists(std::span<std::byte> c, cudaStream_t stream) const;
  /// Throws SystemError naming ranks, expert and value if a run has met illegal counts.
  void require_legal() const;
  /// Releases the memory without giving it back to the pool, because runs under way may still use it.
  void keep_memory() noexcept;

 private:
  std::int64_t columns_;
  ToldCounts told_;
  RoutedCounts counts_;
  std::array<std::unique_ptr<MappedWord>, 3> fault_; ///< RoutedCounts::host_fault
  std::unique_ptr<DeviceMemory> table_, derived_, list_memory_;
  int list_count_ = 0;
};

/// Whether runs read counts on the device. The first rank's buffers decide; all ranks agree.
[[nodiscard]] bool reads_device_counts(std::span<const RankBuffers> buffers) noexcept;

/// Bytes of each piece of device memory that a DeviceRouting takes, without its lists.
[[nodiscard]] std::vector<std::int64_t> device_routing_bytes(const planner::OpSpec& op);

} // namespace mc2::executor::cuda
