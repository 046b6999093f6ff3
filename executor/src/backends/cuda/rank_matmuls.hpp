#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cuda/bound_plan.hpp"

namespace mc2::executor::cuda {

/// What a rank multiplies, or pools. All on the rank's own thread. Throw SystemError.

/// The rank's matmuls of every stage and slice; of kinds that pool, its tables. Nothing for a variant that stores
/// tiles.
void build_matmuls(BoundPlan& plan, int rank);

/// What the rank's kernels read from peers, where pieces are rows here and there.
void build_row_copies(BoundPlan& plan, int rank);
/// What runs make of counts that they read on the device; after the matmuls.
void build_routing(BoundPlan& plan, int rank);
/// Every rank's places are known.
void connect_routing(BoundPlan& plan, int rank);
/// What those and the lists of tiles that are multiplied take, at most.
[[nodiscard]] std::array<std::int64_t, 2> row_run_bytes(const StageList& stages) noexcept;
/// What lists and scratch memory of matmuls take whose tokens choose experts, at most.
[[nodiscard]] std::vector<std::int64_t> chosen_bytes(const StageList& stages, const CudaVariant& variant);

/// What does fused runs, and products, of a variant that stores tiles. Every rank's places are known.
void build_tiles(BoundPlan& plan, int rank);

/// Lets all of them work on the rank's present buffers instead of on those that it had.
void rebind_matmuls(BoundPlan& plan, int rank, const RankBuffers& had);

/// Enqueues what the compute lane does of a slice.
void enqueue_matmuls(const BoundPlan& plan, int rank, std::size_t stage, int slice, cudaStream_t stream);

/// Throws SystemError naming the bag, or the count on the device, where a run has met an illegal one.
void require_legal_input(const BoundPlan& plan, int rank);

} // namespace mc2::executor::cuda
