#pragma once

#include <mpi.h>

#include <functional>
#include <span>

#include "lanes/signal.hpp"
#include "node/shared_signal.hpp"
#include "polling.hpp"

namespace mc2::executor::mpi {

using lanes::Clock;

/// Called between two looks. If it throws to give up, requests are still under way and the job has to be aborted.
using node::Pause;

/// Completes all requests by testing them again and again; nothing else makes them progress. A look is a series of
/// tests; it ends when tests find that nothing has moved. Throws SystemError.
void wait_all(std::span<MPI_Request> requests, const Pause& pause);

inline constexpr std::size_t kMostRequests = 16;

/// Like wait_all, for at most kMostRequests requests. Calls `go_on` whenever a request has completed; `go_on` may start
/// others in its place. Returns when `go_on` returns true.
void wait_some(std::span<MPI_Request> requests, const Pause& pause, const std::function<bool()>& go_on);

} // namespace mc2::executor::mpi
