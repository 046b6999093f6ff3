#pragma once

#include "mc2/executor/backend.hpp"

namespace mc2::executor::mpi {

/// CPUs of one or several machines, one process per rank: matmul through oneDNN, collectives through MPI. Every
/// process calls the same functions, or rank 0 directs the others (mc2/executor/processes.hpp). In a build without
/// MPI it is listed too and says what is missing.
[[nodiscard]] const Backend& mpi_backend() noexcept;

} // namespace mc2::executor::mpi
