#pragma once

#include "backends/cuda/bound_plan.hpp"

namespace mc2::executor::cuda {

/// Which times a run takes, and what they say of its stages. The times of single stages that wait for one another are
/// taken by enqueueing them one by one; where a lane just runs, its time is shared among its stages by rows.

/// Whether a graph of this mode takes the time when the own shard's matmul has ended.
[[nodiscard]] constexpr bool stamps_local(RunMode mode) noexcept {
  return mode == RunMode::ComputeOnly || mode == RunMode::Independent;
}

/// Whether a graph of this mode takes the time when each lane has ended: not where they wait for one another, nor of
/// what Serial does.
[[nodiscard]] constexpr bool times_lanes(RunMode mode) noexcept { return mode != RunMode::Fused && !is_serial(mode); }

/// Whether the lane's graph takes the time when the stage is done: where the blocks' length changes, and where one
/// kernel has carried all so far. A node that takes the time costs microseconds, and where lanes run side by side it
/// ties them together (docs/gpu_lab_notes.md), so there are no more of them.
[[nodiscard]] bool is_stamped(const BoundPlan& plan, planner::Lane lane, RunMode mode, std::size_t stage) noexcept;

/// Of the rank's run that has ended. Throws SystemError. @param has_stages the run took the times of single stages
void read_times(BoundPlan& plan, int rank, RunMode mode, bool has_stages, RankTimes& times);

/// The whole's time, of all ranks' times. Order: *collective*. Throws SystemError.
void finish_record(BoundPlan& plan, bool has_stages, RunRecord& record);

} // namespace mc2::executor::cuda
