#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "mc2/planner/error.hpp"

namespace mc2::executor {

/// A thread's turn to run on a communicator, on which one thread at a time may run.
class RunTurn {
 public:
  /// Throws SystemError while another thread has its turn.
  explicit RunTurn(std::atomic_flag& is_taken) : is_taken_(is_taken) {
    if (is_taken.test_and_set(std::memory_order_acquire))
      throw SystemError("run", EBUSY, "another thread runs on this communicator; one run at a time");
  }
  struct Waits {};
  /// Waits for another thread's turn to end, for callers that cannot fail.
  RunTurn(std::atomic_flag& is_taken, Waits /*tag*/) noexcept : is_taken_(is_taken) {
    while (is_taken.test_and_set(std::memory_order_acquire))
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  ~RunTurn() { is_taken_.clear(std::memory_order_release); }
  RunTurn(const RunTurn&) = delete;
  RunTurn& operator=(const RunTurn&) = delete;

 private:
  std::atomic_flag& is_taken_;
};

} // namespace mc2::executor
