#pragma once

#include "backends/mpi/variants.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::mpi {

/// Errors: Unsupported when the launcher started another number of processes than `world_size`, saying how to start.
[[nodiscard]] Result<void> check_world_size(int world_size);

/// Errors: as check_world_size, and Unsupported for a link or compute that only the host backend emulates.
[[nodiscard]] Result<void> check_options(const CommunicatorOptions& options);

/// Whether the node with most ranks has the memory. Errors: Unsupported.
[[nodiscard]] Result<void> check_memory(const planner::OpSpec& op);

/// Whether the node with most ranks has the memory for what prepare() adds to the callers' own buffers; within a few
/// megabytes. Errors: Unsupported.
[[nodiscard]] Result<void> check_prepared_memory(const StageList& list, const MpiVariant& variant,
                                                 bool allow_independent);

/// Whether MPI can count the elements of every block's collective. Errors: Unsupported.
[[nodiscard]] Result<void> check_message_sizes(const StageList& list);

} // namespace mc2::executor::mpi
