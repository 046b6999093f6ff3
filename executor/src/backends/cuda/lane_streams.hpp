#pragma once

#include "backends/cuda/bound_plan.hpp"

namespace mc2::executor::cuda {

/// Lets all later work of `to` start after all present work of `from`. Throws SystemError.
void order(cudaStream_t from, cudaStream_t to, const Event& event);

/// Enqueues a rank's run on its streams. The run begins and ends on the compute stream and can be captured. Called on
/// the rank's own thread. Throws SystemError.
///
/// If the transport carries several blocks by one kernel, this kernel starts with the run, and each block's matmul is
/// followed by an announcement on a stream of its own.
///
/// A block passes between the lanes in the transport's slices, each with matmuls of its own. If slices arrive from
/// peers, their matmuls alternate between two streams, so that one fills the SMs that the last wave of the other leaves
/// idle.
///
/// If the variant stores tiles, TileReduction carries out fused runs without lanes and exchange memory. The compute
/// lane's matmul is one kernel of TileReduction, too, whose products lie shard after shard, as in A.
void enqueue_run(BoundPlan& plan, const RankRun& run);

} // namespace mc2::executor::cuda
