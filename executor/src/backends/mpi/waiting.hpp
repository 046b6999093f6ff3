#pragma once

#include <mpi.h>

#include <chrono>
#include <functional>
#include <span>

#include "lanes/signal.hpp"
#include "node/shared_signal.hpp"

namespace mc2::executor::mpi {

using lanes::Clock;

/// Between two looks at a request: yields the core at first, so that a short wait ends at once, and then sleeps, so
/// that a long one takes no core from the matmul.
class Patience {
 public:
  /// @param sleep between looks after the first `yield_for`
  Patience(std::chrono::microseconds sleep, std::chrono::microseconds yield_for) noexcept
      : sleep_(sleep), sleep_from_(Clock::now() + yield_for) {}

  void pause() const noexcept;

 private:
  std::chrono::microseconds sleep_;
  Clock::time_point sleep_from_;
};

/// Where it throws to give up, requests are still under way and the job has to be aborted.
using node::Pause;

/// Completes all requests, testing them again and again; nothing else progresses them. A look ends when tests find
/// nothing that has moved. Throws SystemError.
void wait_all(std::span<MPI_Request> requests, const Pause& pause);

inline constexpr std::size_t kMostRequests = 16;

/// As wait_all for at most kMostRequests, and calls `go_on` whenever one has completed, which may start others in its
/// place; returns when that returns true.
void wait_some(std::span<MPI_Request> requests, const Pause& pause, const std::function<bool()>& go_on);

} // namespace mc2::executor::mpi
