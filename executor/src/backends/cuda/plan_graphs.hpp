#pragma once

#include "backends/cuda/bound_plan.hpp"

namespace mc2::executor::cuda {

/// Each rank's whole run is one CUDA graph. All on the rank's own thread. Throw SystemError.

/// A run, captured; nothing of it runs.
[[nodiscard]] GraphExec capture_run(BoundPlan& plan, const RankRun& run);

/// What enqueue() launches where matrices have been replaced since its graph was captured: a graph of theirs, or null
/// for matrices that have not come often enough to be worth a capture. NCCL wants all ranks to replay one capture or
/// none, and what the others' matrices are is not known here: its plans are launched one by one once they have other
/// matrices.
[[nodiscard]] cudaGraphExec_t graph_of_moved_matrices(BoundPlan& plan, int rank);

/// A transport's promise, checked on its graph: that of the collectives alone holds no kernel but our meetings.
void check_takes_no_sm(const BoundPlan& plan, int rank);

} // namespace mc2::executor::cuda
