#pragma once

#include <atomic>
#include <thread>

#include "lanes/signal.hpp"
#include "mc2/executor/process_mark.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::lanes {

/// The work of a lane that is woken.
class LaneTask {
 public:
  virtual void run_lane(int rank, planner::Lane lane) noexcept = 0;

 protected:
  ~LaneTask() = default;
};

/// Counts the lanes that still run, and wakes the thread that waits for the last.
class Completion {
 public:
  /// Sets the number of lanes. Called before they are woken.
  void expect(int lane_count) noexcept;
  void lane_finished() noexcept;
  [[nodiscard]] WaitResult wait(Clock::time_point deadline) const noexcept {
    return finished_.wait_at_least(1, deadline);
  }

 private:
  std::atomic<int> running_{0};
  Signal finished_;
};

/// One lane of one rank: a thread that sleeps between tasks. The destructor joins the thread; no task may be running
/// then. In a fork()ed child, where the thread does not exist, it does not join.
class LaneThread {
 public:
  LaneThread(int rank, planner::Lane lane, Completion& completion);
  ~LaneThread();
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

  /// Wakes the thread for one task and returns; the Completion counts the task's end. Allocates nothing.
  void post(LaneTask& task) noexcept;

 private:
  void loop() noexcept;

  int rank_;
  planner::Lane lane_;
  Completion& completion_;
  LaneTask* task_ = nullptr; ///< handed over through command_
  Signal command_;
  ProcessMark process_;
  std::jthread thread_; ///< last: starts when the members above exist
};

} // namespace mc2::executor::lanes
