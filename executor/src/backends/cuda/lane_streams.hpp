#pragma once

#include "backends/cuda/bound_plan.hpp"

namespace mc2::executor::cuda {

/// Work that `to` gets from now on starts after what `from` has now. Throws SystemError.
void order(cudaStream_t from, cudaStream_t to, const Event& event);

/// Enqueues a rank's run on its streams, from its compute stream and back to it; can be captured. On the rank's own
/// thread. Throws SystemError.
///
/// Where the transport carries several blocks by one kernel, that kernel starts with the run, and every block's matmul
/// is followed by an announcement on a stream of its own.
///
/// A block passes the lanes in the transport's slices, each with matmuls of its own. Where slices arrive from peers
/// their matmuls take turns on two streams, so that one fills the SMs that the last wave of the one before leaves idle.
///
/// Where the variant stores tiles, fused runs are TileReduction's, without lanes and exchange memory, and so is the
/// lanes' matmul: one kernel, whose products lie shard after shard, as in A.
void enqueue_run(BoundPlan& plan, const RankRun& run);

} // namespace mc2::executor::cuda
