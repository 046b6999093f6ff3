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

/// A rank that this process holds, and which of this host's devices it has.
struct LocalRank {
  int number;
  int device;
};
[[nodiscard]] std::vector<LocalRank> local_ranks_of(const CommunicatorOptions& options);
[[nodiscard]] std::vector<int> numbers_of(std::span<const LocalRank> ranks);
/// How many of this host's devices the world has: from 0 on.
[[nodiscard]] int devices_here(const CommunicatorOptions& options);

/// Errors: Unsupported naming the operator kind or type that cannot run, InvalidSpec.
[[nodiscard]] Result<void> check_operator(const planner::OpSpec& op);

/// What the matmul adds: where it writes C, everything; where its products are sent as they are, the bias.
[[nodiscard]] planner::Epilogue matmul_epilogue(const planner::OpSpec& op) noexcept;
/// What is left to do to rows of C once they are whole.
[[nodiscard]] planner::Epilogue result_epilogue(const planner::OpSpec& op) noexcept;

/// The operator as its collectives see it, whose bytes are the same: products of f8e4m3 are bf16, and rows of A that
/// only travel are half as many bf16.
[[nodiscard]] planner::OpSpec exchanged_as(const planner::OpSpec& op) noexcept;

/// Whether so many of this host's devices multiply the type. Errors: Unsupported naming the device and what it lacks.
[[nodiscard]] Result<void> check_device_types(const planner::OpSpec& op, int device_count);

/// What a world needs of this host: that many devices, each reaching every other.
/// Errors: Unsupported naming what was found and what is needed.
[[nodiscard]] Result<void> check_devices(int count_needed);

/// Whether a caller's NCCL communicators, if there are any, are one per local rank, of that rank and on its device.
/// Errors: InvalidSpec naming what was found.
[[nodiscard]] Result<void> check_native_communicators(std::span<void* const> communicators,
                                                      std::span<const LocalRank> ranks, int world_size);

/// Bytes of one rank's exchange memory: the partial product [m, n] of kinds that multiply first, else the gathered A.
[[nodiscard]] std::int64_t exchange_bytes(const planner::OpSpec& op) noexcept;

/// Bytes of one rank's staging memory, where a transport has one: a piece of every peer.
[[nodiscard]] std::int64_t staging_bytes(const planner::OpSpec& op) noexcept;

/// Bytes that one rank's operands take.
[[nodiscard]] std::int64_t operand_bytes(const planner::OpSpec& op) noexcept;
/// Bytes of each memory that preparing a plan takes on a rank, without that of tiles.
[[nodiscard]] std::vector<std::int64_t> prepared_sizes(const planner::OpSpec& op, bool stages_pieces,
                                                       bool allow_independent);

/// @param reusable_bytes of them, in memory that the process holds on the rank's device and does not use
/// Errors: Unsupported when the device has less memory to give.
[[nodiscard]] Result<void> check_memory(LocalRank rank, std::int64_t needed_bytes, std::int64_t reusable_bytes);

/// Whether there is one stream (cudaStream_t) per local rank, of the rank's device. Leaves the current device as it is.
/// Errors: InvalidSpec naming what was found.
[[nodiscard]] Result<void> check_streams(std::span<void* const> streams, std::span<const LocalRank> ranks);

/// Whether the caller's matrices that are exchanged may become NCCL's symmetric windows: aligned to 4096 bytes, in
/// memory of the driver's virtual memory management (Communicator::allocate, ncclMemAlloc). Errors: Unsupported.
[[nodiscard]] Result<void> check_window_memory(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

/// Whether the variant carries such blocks: NCCL's all-to-all takes pieces that touch, which only uncut ones do.
/// @param has_row_runs  pieces are of unequal size, or of several experts
/// Errors: Unsupported naming the variant, or counts of a type that has none.
[[nodiscard]] Result<void> check_carries(const StageList& stages, const CudaVariant& variant, bool has_row_runs);

/// Whether a rank's matrices are aligned to 16 bytes, where the variant's kernel, or that of chosen experts, moves as
/// many at a time. Errors: InvalidSpec naming rank and matrix.
[[nodiscard]] Result<void> check_tile_places(const planner::OpSpec& op, const CudaVariant& variant,
                                             std::span<const int> ranks, std::span<const RankBuffers> buffers);

/// Whether runs can read counts on the devices, where the ranks have them there: our own kernels exchange and multiply
/// all rows then. Errors: InvalidSpec naming a rank that differs, Unsupported naming what is in the way.
[[nodiscard]] Result<void> check_device_counts(const planner::OpSpec& op, const CudaVariant& variant,
                                               std::span<const LocalRank> ranks, std::span<const RankBuffers> buffers);

/// Whether a rank's experts can be multiplied by one kernel of our own: on Hopper, of f16 and bf16, of rows and
/// matrices aligned to 16 bytes, unless a tile of the library's is asked for. Errors: Unsupported saying what is
/// needed.
[[nodiscard]] Result<void> check_grouped(const planner::OpSpec& op, const CudaVariant& variant, LocalRank rank,
                                         const RankBuffers& buffers);

/// Whether the variant reaches all ranks of such a world: those of other processes, and of other hosts.
/// Errors: Unsupported naming the variant.
[[nodiscard]] Result<void> check_reach(const CudaVariant& variant, const CommunicatorOptions& options);

/// Whether other processes can map those of a rank's matrices that they reach. Errors: Unsupported naming rank and
/// matrix.
[[nodiscard]] Result<void> check_shareable(int rank, const RankBuffers& buffers, const PeerReach& reach);

/// Whether the other devices may read those of a rank's matrices that its peers reach, and write C: in one process.
/// cudaMalloc's memory they may; that of pools and of the driver's virtual memory management where its owner has said
/// so. Errors: Unsupported naming rank, matrix and device.
[[nodiscard]] Result<void> check_peer_access(std::span<const int> ranks, std::span<const RankBuffers> buffers,
                                             const PeerReach& reach);

/// Whether local rank's matrices lie in memory of their devices. Errors: InvalidSpec naming rank and matrix.
[[nodiscard]] Result<void> check_places(std::span<const LocalRank> ranks, std::span<const RankBuffers> buffers);

/// Whether every bag of a rank, in memory of its device, is legal. Errors: InvalidSpec naming table, sample and value.
[[nodiscard]] Result<void> check_resident_bags(const planner::OpSpec& op, int rank, const RankBuffers& buffers);

/// choice_digest() of choices in memory of the rank's device. Errors: as check_choices().
[[nodiscard]] Result<std::int64_t> resident_choice_digest(const planner::OpSpec& op, int rank,
                                                          const RankBuffers& buffers);

/// Whether matrices may take the place of others: those that peers reach stay, and none is aligned worse.
/// Errors: InvalidSpec naming rank and matrix.
[[nodiscard]] Result<void> check_replacement(int rank, const RankBuffers& now, const RankBuffers& next,
                                             const PeerReach& reach);

/// Everything about a stage list and its buffers, one set per local rank, but the variant: operator, world size,
/// stages, sizes, overlaps, and that each rank's buffers lie in memory of its device. Errors: InvalidSpec naming rank
/// and matrix, Unsupported.
[[nodiscard]] Result<void> check_request(const StageList& stages, int world_size, std::span<const LocalRank> ranks,
                                         std::span<const RankBuffers> buffers);

} // namespace mc2::executor::cuda
