#pragma once

#include "mc2/executor/backend.hpp"

namespace mc2::executor::mpi {

/// The CPUs of one or several machines, with one process per rank: matmul through oneDNN, collectives through MPI.
/// Either every process calls the same functions, or rank 0 directs the others (mc2/executor/processes.hpp). A build
/// without MPI lists the backend, too, and says what is missing.
[[nodiscard]] const Backend& mpi_backend() noexcept;

} // namespace mc2::executor::mpi
