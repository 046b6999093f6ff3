#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "lanes/signal.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"
#include "run_mode.hpp"

namespace mc2::executor::lanes {

/// Thrown in a lane when another lane has failed. The first failure is recorded already.
struct RunAborted {};

/// State that the lanes of one communicator share during a run: its start and deadline, the signals of blocks, and the
/// first failure.
class RunControl {
 public:
  explicit RunControl(int world_size);

  /// Prepares the signals of a run. No lane may be running.
  void begin(RunMode mode, std::chrono::nanoseconds time_limit);

  [[nodiscard]] RunMode mode() const noexcept { return mode_; }
  [[nodiscard]] Clock::time_point start() const noexcept { return start_; }
  [[nodiscard]] Clock::time_point deadline() const noexcept { return deadline_; }

  /// Number of blocks that a rank's first lane has finished.
  [[nodiscard]] Signal& ready(int rank) noexcept { return ready_[static_cast<std::size_t>(rank)]; }

  /// Counts a stage that a lane has finished.
  void stage_finished(int rank, planner::Lane lane) noexcept;
  [[nodiscard]] std::uint32_t stage_count(int rank, planner::Lane lane) const noexcept {
    return progress_[progress_index(rank, lane)].stage_count.load(std::memory_order_relaxed);
  }
  /// Describes the lane that has finished the fewest blocks, e.g. "rank 1's compute lane had finished 3 blocks".
  [[nodiscard]] std::string laggard() const;

  /// Sleeps until `time` without using the CPU. Throws RunAborted, and SystemError naming the rank when the run's
  /// deadline comes first.
  void sleep_until(Clock::time_point time, int rank) const;

  /// Throws RunAborted when another lane has failed.
  void throw_if_aborted() const;

  /// Records the first failure and wakes every lane that waits for a signal. Later failures are dropped: they follow
  /// from the first.
  void fail(const SystemError& failure) noexcept;
  [[nodiscard]] bool has_failed() const noexcept { return aborted_.is_poisoned(); }
  /// The first failure. Call only when has_failed() and no lane is running.
  [[nodiscard]] const SystemError& failure() const noexcept { return *failure_; }

 private:
  struct alignas(64) Progress { // in a cache line of its own, because every lane writes its own count
    std::atomic<std::uint32_t> stage_count{0};
  };

  [[nodiscard]] std::size_t progress_index(int rank, planner::Lane lane) const noexcept;

  std::vector<Signal> ready_;      ///< by rank
  std::vector<Progress> progress_; ///< the compute lanes by rank, then the communication lanes
  Signal aborted_;
  std::atomic_flag failure_is_claimed_;
  std::optional<SystemError> failure_;
  RunMode mode_ = RunMode::Fused;
  Clock::time_point start_;
  Clock::time_point deadline_;
};

/// The failure of a wait that outlasted the run's deadline; `awaited` says who waited for what.
[[nodiscard]] SystemError deadline_error(const std::string& awaited);
/// "rank 0 waited for block 3 of rank 1".
[[nodiscard]] std::string awaited_piece(int rank, std::size_t block, int peer);

} // namespace mc2::executor::lanes
