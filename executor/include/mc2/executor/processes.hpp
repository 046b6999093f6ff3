#pragma once

#include <functional>
#include <string>

#include "mc2/planner/error.hpp"

namespace mc2::executor {

/// For a program that one process of an MPI job runs on behalf of all: rank 0 runs `lead`, and communicators that it
/// opens on the backend "mpi" hold every rank, as if they were local; every other process does what rank 0's
/// communicators need and nothing else, so that plans, files and decisions are rank 0's alone. A process that was
/// started without an MPI launcher just runs `lead`.
/// Without this function every process of a job opens the backend "mpi" for itself and holds its own rank.
/// Order: *collective*, once, before anything else of the backend "mpi"; every communicator of `lead` is closed when
/// it returns. Threads: `lead` runs on the calling thread and directs from it only.
/// @param request what this process was started for, e.g. its command line: must be the same on every rank
/// @return rank 0: what `lead` returns; other ranks 0, once rank 0's `lead` has returned
/// Errors: Mismatch, on every rank, naming the first rank whose request is not rank 0's. Throws SystemError.
[[nodiscard]] planner::Result<int> lead_processes(const std::string& request, const std::function<int()>& lead);

} // namespace mc2::executor
