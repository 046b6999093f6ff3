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

/// A rank's counts of rows where runs read them on the device: told to all ranks, and made into the lists of which rows
/// its kernels copy and which tiles they multiply. The host knows none of them.
class DeviceRouting {
 public:
  /// @param pool of the rank's device, outlives *this. Throws SystemError.
  DeviceRouting(const planner::OpSpec& op, int rank, DevicePool& pool);

  /// Memory that peers write: addresses of every rank's are set before anything is enqueued.
  [[nodiscard]] std::byte* table() const noexcept { return table_->bytes().data(); }
  void set_tables(std::span<std::byte* const> of_rank) noexcept;
  void set_lists(std::span<const RoutedList> lists, DevicePool& pool);

  /// Before the ranks meet. @param own  counts, [to, expert]
  void enqueue_telling(std::span<const std::byte> own, cudaStream_t stream) const;
  /// After. @param c  becomes NaN where a count is illegal
  void enqueue_lists(std::span<std::byte> c, cudaStream_t stream) const;
  /// Throws SystemError naming ranks, expert and value where a run has met illegal counts.
  void require_legal() const;
  /// From all plans to come, as runs under way may use it.
  void keep_memory() noexcept;

 private:
  std::int64_t columns_;
  ToldCounts told_;
  RoutedCounts counts_;
  std::array<std::unique_ptr<MappedWord>, 3> fault_; ///< RoutedCounts::host_fault
  std::unique_ptr<DeviceMemory> table_, derived_, list_memory_;
  int list_count_ = 0;
};

/// Whether runs read counts on the device: said by the first rank's buffers, as by all.
[[nodiscard]] bool reads_device_counts(std::span<const RankBuffers> buffers) noexcept;

/// What DeviceRouting takes of a device's memory.
[[nodiscard]] std::vector<std::int64_t> device_routing_bytes(const planner::OpSpec& op);

} // namespace mc2::executor::cuda
