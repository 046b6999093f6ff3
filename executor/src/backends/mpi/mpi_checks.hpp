#pragma once

#include "backends/mpi/variants.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::mpi {

/// Errors: Unsupported (world_size) if the launcher started another number of processes; the text says how to start.
[[nodiscard]] Result<void> check_world_size(int world_size);

/// Errors: as check_world_size, and Unsupported for an emulated link or virtual compute, which only the host backend
/// has.
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
