#pragma once

#include <memory>

#include "mc2/executor/backend.hpp"

namespace mc2::executor::mpi {

/// All ranks of the world as rank 0 sees them while it directs the other processes: their memory is theirs, and what
/// is called here each of them calls on its own MpiCommunicator. Only for rank 0 inside lead_processes(). Options are
/// valid and fit the world. Errors: as MpiCommunicator::open. Throws SystemError.
[[nodiscard]] Result<std::unique_ptr<Communicator>> open_as_leader(const CommunicatorOptions& options);

/// On every rank but 0: does what rank 0 says until it says that it has finished.
/// Anything that fails here ends the job, naming this rank.
void follow() noexcept;

/// On rank 0: lets every other process return from follow().
void dismiss_followers();

} // namespace mc2::executor::mpi
