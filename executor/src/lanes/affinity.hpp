#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::lanes {

/// How the lanes share the cores that this process may use.
enum class Pinning : std::uint8_t {
  None,     ///< fewer cores than ranks, or switched off: the scheduler decides
  Shared,   ///< both lanes of a rank on the rank's own core
  Separate, ///< the communication lane has a core of its own, the compute lane the rank's other cores
};

[[nodiscard]] std::string_view to_string(Pinning pinning) noexcept;

/// The cores that this process may use, ascending. Throws SystemError.
[[nodiscard]] std::vector<int> allowed_cores();

/// The NUMA node of the cores that this process may use; -1 if they are in several nodes, or Linux does not tell.
[[nodiscard]] int memory_node();

/// How a process shares its cores with others of its node.
struct CoreShare {
  int process_count = 1; ///< processes that may use the same cores, itself included
  int place = 0;         ///< its number among them
  bool overlaps = false; ///< whether another process may use some of its cores, but not the same ones
};

/// How process number `own` shares its cores. @param cores  by process: the cores that it may use, ascending
[[nodiscard]] CoreShare share_of_cores(std::span<const std::vector<int>> cores, std::size_t own);

/// Which cores each lane gets. A value, made once per communicator.
class CoreLayout {
 public:
  /// C cores and R ranks give Pinning::Separate if C >= 2R, Shared if C >= R, else None. Without `pin_threads` no
  /// thread is pinned, and the compute lane has as many threads as with it.
  CoreLayout(std::vector<int> cores, int world_size, bool pin_threads);

  [[nodiscard]] Pinning pinning() const noexcept { return pinning_; }
  [[nodiscard]] int compute_thread_count() const noexcept { return compute_thread_count_; }
  /// Empty when the lane is not pinned.
  [[nodiscard]] std::span<const int> cores_of(int rank, planner::Lane lane) const noexcept;

 private:
  std::vector<int> cores_;
  std::size_t cores_per_rank_ = 0;
  Pinning pinning_ = Pinning::None;
  int compute_thread_count_ = 1;
};

/// Restricts the calling thread, and the threads that it starts later, to `cores`. Throws SystemError naming the
/// rank.
void pin_current_thread(std::span<const int> cores, int rank);

} // namespace mc2::executor::lanes
