#pragma once

#include <chrono>
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

/// Reads from the environment what torchrun (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
/// TORCHELASTIC_RUN_ID and _RESTART_COUNT) or Open MPI's mpirun (OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE,
/// PMIX_NAMESPACE) told this process; unset when neither of them started it. Where ranks are on several hosts, the
/// address is MC2_RANK_ZERO (host:port) or, with torchrun, MASTER_ADDR and the port after MASTER_PORT.
/// @param variable  gives the value of an environment variable; null for a variable that is not set
/// Errors: InvalidSpec naming a variable that is missing although the launcher's others are set, or that is not a
/// number in its range; Unsupported if all ranks are on this machine and their numbers are not the launcher's local
/// ones.
[[nodiscard]] Result<std::optional<LaunchedProcess>> launched_process(
    const std::function<const char*(const char* name)>& variable);

/// How long the processes of a job wait for one another to start where nothing else is said.
inline constexpr std::chrono::seconds kOpeningDeadline{60};

/// Lets one process of an MPI job run a program on behalf of all. Rank 0 runs `lead`; communicators that `lead` opens
/// on the backend "mpi" hold every rank, as if all were local. The other processes only serve these communicators, so
/// that rank 0 alone makes plans, writes files and takes decisions. A process that no MPI launcher started just runs
/// `lead`. Without this function every process of a job opens the backend "mpi" for itself and holds its own rank.
/// Order: *collective*, once, before any other use of the backend "mpi". `lead` must close its communicators before it
/// returns. Threads: `lead` runs on the calling thread and uses the communicators on this thread only.
/// @param request what this process was started for, e.g. its command line; must be the same on every rank
/// @param deadline how long the processes wait for one another to start; then the job ends with an error that names
///   who waited, and for which ranks if MPI knows
/// @return rank 0: what `lead` returns; other ranks: 0, once rank 0's `lead` has returned
/// Errors: Mismatch, on every rank, naming the first rank whose request is not rank 0's; Unsupported where MPI runs
/// another number of processes than the launcher says. Throws SystemError.
[[nodiscard]] Result<int> lead_processes(const std::string& request, const std::function<int()>& lead,
                                         std::chrono::milliseconds deadline = kOpeningDeadline);

} // namespace mc2::executor

#pragma GCC visibility pop
