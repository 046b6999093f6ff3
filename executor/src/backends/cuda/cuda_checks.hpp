#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cuda/transports/variants.hpp"
#include "mc2/executor/backend.hpp"
#include "mc2/executor/buffer.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/planner/error.hpp"
#include "stage.hpp"

namespace mc2::executor::cuda {

/// A rank that this process holds, and the number of its device on this host.
struct LocalRank {
  int number;
  int device;
};
[[nodiscard]] std::vector<LocalRank> local_ranks_of(const CommunicatorOptions& options);
[[nodiscard]] std::vector<int> numbers_of(std::span<const LocalRank> ranks);
/// How many of the world's ranks are on this host.
[[nodiscard]] int ranks_here(const CommunicatorOptions& options);

/// Checks that the backend runs the operator. Errors: Unsupported naming the operator kind or type that cannot run,
/// InvalidSpec.
[[nodiscard]] Result<void> check_operator(const planner::OpSpec& op);

/// The part of the epilogue that the matmul adds: bias and residual where it writes C, the bias where its products are
/// only moved, else nothing.
[[nodiscard]] planner::Epilogue matmul_epilogue(const planner::OpSpec& op) noexcept;
/// The rest of the epilogue, which is applied to rows of C once they are whole.
[[nodiscard]] planner::Epilogue result_epilogue(const planner::OpSpec& op) noexcept;

/// The operator as its collectives see it, with the same number of bytes: products of f8e4m3 are bf16, and rows of A in
/// f8e4m3 travel as half as many bf16.
[[nodiscard]] planner::OpSpec exchanged_as(const planner::OpSpec& op) noexcept;

/// Checks that this host's first `device_count` devices can multiply the type. Errors: Unsupported naming the device
/// and what it lacks.
[[nodiscard]] Result<void> check_device_types(const planner::OpSpec& op, int device_count);

/// Checks that this host has devices for so many ranks, each of which reaches every other, and a recent NCCL.
/// Errors: Unsupported naming what was found and what is needed.
[[nodiscard]] Result<void> check_devices(int rank_count);

/// Checks that the caller's NCCL communicators, if there are any, are one per local rank, of that rank and on its
/// device.
/// Errors: InvalidSpec naming what was found.
[[nodiscard]] Result<void> check_native_communicators(std::span<void* const> communicators,
                                                      std::span<const LocalRank> ranks, int world_size);

/// Bytes of one rank's exchange memory: the partial product [m, n] of kinds that multiply first, else the gathered A.
[[nodiscard]] std::int64_t exchange_bytes(const planner::OpSpec& op) noexcept;

/// Bytes of one rank's staging memory, if its transport has one: a piece of every peer, or the sum of all columns.
[[nodiscard]] std::int64_t staging_bytes(const planner::OpSpec& op) noexcept;

/// Bytes of each piece of memory that preparing a plan takes on a rank, without the memory of tiles.
[[nodiscard]] std::vector<std::int64_t> prepared_sizes(const planner::OpSpec& op, bool stages_pieces,
                                                       bool allow_independent);

/// Checks that the rank's device has the memory.
/// @param reusable_bytes idle bytes that this process already holds on the rank's device
/// Errors: Unsupported if the device has less memory available.
[[nodiscard]] Result<void> check_memory(LocalRank rank, std::int64_t needed_bytes, std::int64_t reusable_bytes);

/// Checks that there is one stream (cudaStream_t) per local rank, on the rank's device. Leaves the current device
/// unchanged.
/// Errors: InvalidSpec naming what was found.
[[nodiscard]] Result<void> check_streams(std::span<void* const> streams, std::span<const LocalRank> ranks);

/// Checks that the exchanged matrices of the caller can become NCCL's symmetric windows: aligned to 4096 bytes, in
/// memory of the driver's virtual memory management (Communicator::allocate, ncclMemAlloc). Errors: Unsupported.
[[nodiscard]] Result<void> check_window_memory(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

/// Checks that the variant carries the blocks. NCCL's all-to-all takes pieces that touch, so it carries uncut operators
/// only.
/// @param has_row_runs  pieces differ in size, or belong to several experts
/// Errors: Unsupported naming the variant, the row length, or counts of a type that cannot have counts.
[[nodiscard]] Result<void> check_carries(const StageList& stages, const CudaVariant& variant, bool has_row_runs);

/// Checks that matrices are aligned to 16 bytes where a kernel moves 16 bytes at a time: that of the variant, or that
/// of chosen experts. Errors: InvalidSpec naming rank and matrix.
[[nodiscard]] Result<void> check_tile_places(const planner::OpSpec& op, const CudaVariant& variant,
                                             std::span<const int> ranks, std::span<const RankBuffers> buffers);

/// If the ranks have counts in device memory: checks that runs can read them there. Our own kernels must then exchange
/// and multiply all rows. Errors: InvalidSpec naming a rank that differs, Unsupported naming what prevents it.
[[nodiscard]] Result<void> check_device_counts(const planner::OpSpec& op, const CudaVariant& variant,
                                               std::span<const LocalRank> ranks, std::span<const RankBuffers> buffers);

/// Checks that one kernel of our own can multiply the rows of all experts of a rank: on Hopper, with f16 or bf16, with
/// rows and matrices aligned to 16 bytes, and no tile of the matmul library asked for. Errors: Unsupported saying what
/// is needed.
[[nodiscard]] Result<void> check_grouped(const planner::OpSpec& op, const CudaVariant& variant, LocalRank rank,
                                         const RankBuffers& buffers);

/// Checks that the variant reaches all ranks of such a world, also ranks of other processes and hosts.
/// Errors: Unsupported naming the variant.
[[nodiscard]] Result<void> check_reach(const CudaVariant& variant, const CommunicatorOptions& options);

/// Checks that other processes can map the rank's matrices that peers reach. Errors: Unsupported naming rank and
/// matrix.
[[nodiscard]] Result<void> check_shareable(int rank, const RankBuffers& buffers, const PeerReach& reach);

/// For a world in one process: checks that the other devices may read the rank's matrices that peers reach, and write
/// C. They may access memory of cudaMalloc; memory of pools and of the driver's virtual memory management only if its
/// owner has allowed that. Errors: Unsupported naming rank, matrix and device.
[[nodiscard]] Result<void> check_peer_access(std::span<const int> ranks, std::span<const RankBuffers> buffers,
                                             const PeerReach& reach);

/// Checks that the local ranks' matrices lie in memory of their devices. Errors: InvalidSpec naming rank and matrix.
[[nodiscard]] Result<void> check_places(std::span<const LocalRank> ranks, std::span<const RankBuffers> buffers);

/// Checks that every bag of a rank is legal; bags are in memory of its device. Errors: InvalidSpec naming table, sample
/// and value.
[[nodiscard]] Result<void> check_resident_bags(const planner::OpSpec& op, int rank, const RankBuffers& buffers);

/// choice_digest() for choices in memory of the rank's device. Errors: as check_choices().
[[nodiscard]] Result<std::int64_t> resident_choice_digest(const planner::OpSpec& op, int rank,
                                                          const RankBuffers& buffers);

/// Checks that matrices may replace those of prepare(): matrices that peers reach must stay in place, and no matrix may
/// be aligned worse. Errors: InvalidSpec naming rank and matrix.
[[nodiscard]] Result<void> check_replacement(int rank, const RankBuffers& now, const RankBuffers& next,
                                             const PeerReach& reach);

/// Checks a stage list and its buffers, one set per local rank, in all respects but the variant: operator, world size,
/// stages, sizes, overlaps, and that each rank's buffers lie in memory of its device. Errors: InvalidSpec naming rank
/// and matrix, Unsupported.
[[nodiscard]] Result<void> check_request(const StageList& stages, int world_size, std::span<const LocalRank> ranks,
                                         std::span<const RankBuffers> buffers);

} // namespace mc2::executor::cuda
