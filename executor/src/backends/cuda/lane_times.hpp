#pragma once

#include "backends/cuda/bound_plan.hpp"

namespace mc2::executor::cuda {

/// Which times a run takes, and how they become the times of its stages. Stages that wait for one another are enqueued
/// one by one and timed singly. If a lane just runs, its time is divided among its stages in proportion to their rows.

/// Whether a graph of this mode takes the time when the own shard's matmul has ended.
[[nodiscard]] constexpr bool stamps_local(RunMode mode) noexcept {
  return mode == RunMode::ComputeOnly || mode == RunMode::Independent;
}

/// Whether a graph of this mode takes the time when each lane has ended. It does not in Fused, where lanes wait for one
/// another, nor in serial modes.
[[nodiscard]] constexpr bool times_lanes(RunMode mode) noexcept { return mode != RunMode::Fused && !is_serial(mode); }

/// Whether the lane's graph takes the time when the stage has ended: where the next block has another length, and after
/// the last block that one kernel carries. There are no more such nodes, because each costs microseconds and ties lanes
/// that run side by side together (docs/gpu_lab_notes.md).
[[nodiscard]] bool is_stamped(const BoundPlan& plan, planner::Lane lane, RunMode mode, std::size_t stage) noexcept;

/// Reads the times of the rank's run, which has ended. Throws SystemError.
/// @param has_stages the run took the times of single stages
void read_times(BoundPlan& plan, int rank, RunMode mode, bool has_stages, RankTimes& times);

/// Computes makespan and wall from all ranks' times. Order: *collective*. Throws SystemError.
void finish_record(BoundPlan& plan, bool has_stages, RunRecord& record);

} // namespace mc2::executor::cuda
