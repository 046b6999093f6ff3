#pragma once

#include <functional>
#include <optional>
#include <string>

#include "mc2/executor/backend.hpp"
#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

/// A process that a launcher started once per rank.
struct LaunchedProcess {
  int world_size = 1;
  ProcessPlace place; ///< its key names the launcher's job
};

/// What torchrun (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID and
/// _RESTART_COUNT) or Open MPI's mpirun (OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE, PMIX_NAMESPACE) told
/// this process; nothing when neither started it. Where ranks are on several hosts, rank 0 waits for the others at
/// MC2_RANK_ZERO, host:port, or, by torchrun, at MASTER_ADDR and the port after MASTER_PORT.
/// @param variable  the value of an environment variable; null for one that is not set
/// Errors: InvalidSpec naming a variable that is missing beside the others or no number of its range; Unsupported where
/// ranks of one machine are not in the launcher's order.
[[nodiscard]] Result<std::optional<LaunchedProcess>> launched_process(
    const std::function<const char*(const char* name)>& variable);

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
[[nodiscard]] Result<int> lead_processes(const std::string& request, const std::function<int()>& lead);

} // namespace mc2::executor

#pragma GCC visibility pop
