#pragma once

#include <memory>

#include "mc2/executor/backend.hpp"

namespace mc2::executor::mpi {

/// Opens a communicator for all ranks of the world on rank 0, which directs the other processes. The matrices of
/// another rank lie in that rank's process, and each call here makes that process call the same function of its own
/// MpiCommunicator. Only for rank 0 inside lead_processes(). The options are valid and fit the world. Errors: as
/// MpiCommunicator::open. Throws SystemError.
[[nodiscard]] Result<std::unique_ptr<Communicator>> open_as_leader(const CommunicatorOptions& options);

/// On every rank but 0: carries out rank 0's orders until rank 0 says that it has finished. Any failure here ends the
/// job, naming this rank.
void follow() noexcept;

/// On rank 0: lets every other process return from follow().
void dismiss_followers();

} // namespace mc2::executor::mpi
