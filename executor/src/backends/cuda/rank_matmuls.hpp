#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cuda/bound_plan.hpp"

namespace mc2::executor::cuda {

/// The matmuls of a rank, or its pooling of bags. All functions are called on the rank's own thread and throw
/// SystemError.

/// Builds the rank's matmuls of every stage and slice; for kinds that pool, its tables. Builds nothing for a variant
/// that stores tiles.
void build_matmuls(BoundPlan& plan, int rank);

/// Builds the lists of rows that the rank's kernels read from peers, if the plan has row runs.
void build_row_copies(BoundPlan& plan, int rank);
/// Builds what turns counts on the device into lists of copies and tiles. Called after build_matmuls().
void build_routing(BoundPlan& plan, int rank);
/// Gives the routing every rank's table of counts. Called when every rank's places are known.
void connect_routing(BoundPlan& plan, int rank);
/// Most bytes of row copies, and of the lists of tiles that are multiplied.
[[nodiscard]] std::array<std::int64_t, 2> row_run_bytes(const StageList& stages) noexcept;
/// Most bytes of each piece of memory for matmuls whose tokens choose experts: lists and scratch memory.
[[nodiscard]] std::vector<std::int64_t> chosen_bytes(const StageList& stages, const CudaVariant& variant);

/// Builds what carries out fused runs and products of a variant that stores tiles. Called when every rank's places are
/// known.
void build_tiles(BoundPlan& plan, int rank);

/// Lets all matmuls work on the rank's present buffers instead of `had`, those before.
void rebind_matmuls(BoundPlan& plan, int rank, const RankBuffers& had);

/// Enqueues the compute lane's work for a slice.
void enqueue_matmuls(const BoundPlan& plan, int rank, std::size_t stage, int slice, cudaStream_t stream);

/// Throws SystemError if a run has met illegal input: names the bag, the choice, or the count on the device.
void require_legal_input(const BoundPlan& plan, int rank);

} // namespace mc2::executor::cuda
