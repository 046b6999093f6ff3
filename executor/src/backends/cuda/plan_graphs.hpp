#pragma once

#include "backends/cuda/bound_plan.hpp"

namespace mc2::executor::cuda {

/// Each rank's whole run is one CUDA graph. All functions are called on the rank's own thread and throw SystemError.

/// Captures a run without running it.
[[nodiscard]] GraphExec capture_run(BoundPlan& plan, const RankRun& run);

/// The graph that enqueue() launches if matrices have been replaced since its own graph was captured. Null if these
/// matrices have not come often enough to be worth a capture. Always null with NCCL, which needs all ranks to replay
/// one capture, or none, and other ranks' matrices are not known here; such plans are launched one by one once their
/// matrices have changed.
[[nodiscard]] cudaGraphExec_t graph_of_moved_matrices(BoundPlan& plan, int rank);

/// Checks the transport's promise to take no SM: the graph of its collectives alone must hold no kernel but our
/// meetings. Throws SystemError.
void check_takes_no_sm(const BoundPlan& plan, int rank);

} // namespace mc2::executor::cuda
