#pragma once

#include <mpi.h>

#include <functional>
#include <span>

#include "lanes/signal.hpp"
#include "node/shared_signal.hpp"
#include "polling.hpp"

namespace mc2::executor::mpi {

using lanes::Clock;

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
