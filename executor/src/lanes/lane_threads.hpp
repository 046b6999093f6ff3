#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lanes/affinity.hpp"
#include "lanes/lane_thread.hpp"
#include "mc2/executor/communicator.hpp"

namespace mc2::executor::lanes {

/// The lanes of consecutive ranks, with a thread for each. One call or run at a time.
class LaneThreads {
 public:
  /// Starts the lanes of `rank_count` ranks from `first_rank` on, pins them, and sets their numbers of threads.
  /// @param first_place  number of the first rank in `layout`
  /// Throws SystemError naming the rank.
  LaneThreads(int first_rank, int rank_count, const CoreLayout& layout, int first_place);

  /// Runs `work(rank)` once on every rank's `lane`. Throws the exception of the first rank that has one.
  void call(planner::Lane lane, const std::function<void(int rank)>& work);

  /// Wakes the lanes that `mode` uses and returns.
  void start(LaneTask& task, RunMode mode) noexcept;
  /// Waits until the last lane that was started has finished.
  [[nodiscard]] WaitResult wait(Clock::time_point deadline) const noexcept { return completion_.wait(deadline); }

 private:
  void post(LaneTask& task, planner::Lane lane) noexcept;

  int first_rank_;
  Completion completion_;
  std::vector<std::unique_ptr<LaneThread>> compute_, communication_; ///< by rank, from the first on
};

} // namespace mc2::executor::lanes
