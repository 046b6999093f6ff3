#pragma once

#include "backends/mpi/variants.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::mpi {

/// Errors: Unsupported (world_size) if the launcher started another number of processes; the text says how to start.
[[nodiscard]] Result<void> check_world_size(int world_size);

/// Errors: Unsupported if MPI runs another number of processes than the launcher says: the launcher of another MPI.
[[nodiscard]] Result<void> check_launch();

/// Errors: as check_world_size, check_launch and Backend::check_emulation.
[[nodiscard]] Result<void> check_options(const CommunicatorOptions& options);

/// Checks that the node with the most ranks has memory for the operator. Errors: Unsupported.
[[nodiscard]] Result<void> check_memory(const planner::OpSpec& op);

/// Checks that the node with the most ranks has memory for what prepare() adds to the callers' buffers, to within a few
/// megabytes. Errors: Unsupported.
[[nodiscard]] Result<void> check_prepared_memory(const StageList& list, const MpiVariant& variant,
                                                 bool allow_independent);

/// Checks that the elements of every block's collective fit MPI's int. Errors: Unsupported (blocks[i]).
[[nodiscard]] Result<void> check_message_sizes(const StageList& list);

} // namespace mc2::executor::mpi
