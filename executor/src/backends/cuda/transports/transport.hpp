#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/runtime/handles.hpp"
#include "backends/cuda/transports/rank_range.hpp"
#include "backends/cuda/transports/variants.hpp"
#include "mc2/executor/communicator.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::cuda {

/// Carries the collectives of one operator's blocks.
class Transport {
 public:
  virtual ~Transport() = default;

  /// The number of slices in which a block passes between the lanes.
  [[nodiscard]] virtual int slice_count() const noexcept { return 1; }
  /// If there are several slices: the ranks whose rows a slice holds, which `rank` needs or makes. If the matmul comes
  /// first the last slice is the rank's own.
  [[nodiscard]] virtual RankRange slice_ranks(int rank, int slice) const;
  /// Whether the transport reaches peers' memory by its address. If not, BlockExchange needs the rank's own addresses
  /// only.
  [[nodiscard]] virtual bool reaches_peers() const noexcept { return true; }
  /// Whether NCCL carries at least a part. Then all ranks must capture the same calls of NCCL, or none may capture.
  [[nodiscard]] virtual bool uses_nccl() const noexcept { return !reaches_peers(); }
  /// Whether peers reach matrices of the caller that are sent. Otherwise they reach our own memory at most.
  [[nodiscard]] virtual bool reaches_sent() const noexcept { return reaches_peers(); }
  /// Whether peers write to a rank's receive memory; otherwise the rank itself does.
  [[nodiscard]] virtual bool writes_to_peers() const noexcept { return false; }
  /// Enqueues `rank`'s part of a slice of a block's collective on its communication stream and returns; can be
  /// captured. Called on the rank's own thread. All ranks enqueue the same slices in the same order. Throws
  /// SystemError.
  virtual void enqueue(int rank, const BlockExchange& block, int slice, cudaStream_t stream) const = 0;

  /// Whether one kernel carries `rank`'s last slice of a block and the epilogue after it. Ranks may differ.
  [[nodiscard]] virtual bool finishes(int /*rank*/, const BlockExchange& /*block*/,
                                      const RowEpilogue& /*epilogue*/) const {
    return false;
  }
  /// Enqueues that kernel. Requires finishes(). Throws SystemError.
  virtual void enqueue_and_finish(int rank, const BlockExchange& block, const RowEpilogue& epilogue,
                                  cudaStream_t stream) const;

  /// Whether the memory of the matmuls has to be registered first, by every rank on its own thread. Registering is
  /// collective and throws SystemError.
  [[nodiscard]] virtual bool has_windows() const { return false; }
  virtual void register_memory(int /*rank*/, std::span<std::byte> /*memory*/) {}
  /// Releases what was registered, before the memory is freed. Collective.
  virtual void release_memory(int /*rank*/) {}
  /// Whether the collectives promise to take no SM.
  [[nodiscard]] virtual bool takes_no_sm() const { return false; }

  /// How many of a run's blocks, from the first on, are carried by one kernel that runs from the start. The other
  /// blocks are enqueued one by one. The same on every rank and for blocks of the same lengths.
  [[nodiscard]] virtual std::size_t span_length(const std::vector<BlockExchange>& /*blocks*/) const { return 0; }
  /// Enqueues `rank`'s part of the collectives of a span of blocks. Throws SystemError.
  /// @param waits each block starts when every rank has called announce() for it
  virtual void enqueue_span(int rank, const std::vector<BlockExchange>& blocks, bool waits, cudaStream_t stream) const;
  /// Enqueues the announcement that `rank`'s next block of the span is ready.
  virtual void announce(int rank, cudaStream_t stream) const;
};

/// Whether a variant's transport uses BlockExchange::staging, of staging_bytes().
[[nodiscard]] bool stages_pieces(const planner::OpSpec& op, const CudaVariant& variant) noexcept;

/// Whether matmuls alternate between two streams, so that one fills the SMs that the last wave of the other leaves
/// idle. Not with a collective that is a kernel, because the second matmul would take its SMs.
[[nodiscard]] bool uses_two_streams(const StageList& stages, const CudaVariant& variant) noexcept;

/// Which of the caller's matrices peers reach: A in kinds that communicate first, which send it; C in the others, which
/// receive into it.
[[nodiscard]] PeerReach reach_of(const Transport& transport, planner::Lane first_lane) noexcept;

/// @param sm_count fewest SMs of any rank's device, so the same on all ranks
[[nodiscard]] std::unique_ptr<Transport> make_direct_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                               std::vector<SignalMemory> signals, int sm_count);

/// All-reduce and reduce-scatter by one kernel for all blocks, so that few SMs suffice and no SM changes hands. If it
/// has few thread blocks, the last block of rows has a kernel of its own, which may take many SMs, since nothing runs
/// beside it.
/// @param sm_count fewest SMs of any rank's device, so the same on all ranks
[[nodiscard]] std::unique_ptr<Transport> make_persistent_transport(const planner::OpSpec& op,
                                                                   const CudaVariant& variant,
                                                                   std::vector<SignalMemory> signals, int sm_count);

/// @param communicators by rank, null for ranks of other processes, opened as the variant asks; they outlive the
/// transport
[[nodiscard]] std::unique_ptr<Transport> make_nccl_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                             std::vector<ncclComm_t> communicators);

/// The place of a rank among the ranks of its host, and of its host among the hosts.
struct HostsPlace {
  int host_count = 1, ranks_per_host = 1; ///< rank r is number r % ranks_per_host of host r / ranks_per_host
  SignalMemory inside;                    ///< signals of this host's ranks, by their number there
  ncclComm_t rail = nullptr;              ///< communicator of the ranks of this number, by host
};

/// For dense pieces. Inside a host ranks use each other's exchange memory; between hosts each rank uses NCCL with the
/// ranks of its number. An all-reduce and a reduce-scatter sum over the host first. In an all-gather copy engines pass
/// on inside the host what the rails have brought. So every piece crosses between hosts once.
[[nodiscard]] std::unique_ptr<Transport> make_hierarchical_transport(const planner::OpSpec& op,
                                                                     const CudaVariant& variant, HostsPlace place);

/// Copies by copy engines. Each rank starts with the next rank, so that ranks do not use one link all at once. Kinds
/// that communicate first pull their peers' pieces. If slices double, a rank pulls from rank ^ 1, rank ^ 2 and so on:
/// then, too, every rank reads another peer, and the ranks of a slice are consecutive. Kinds that compute first push
/// their pieces. Pieces that are to be summed wait in staging memory until all have arrived; then the SMs sum them. In
/// an all-reduce each rank sums its share of a block.
/// @param sm_count SMs of every rank's device
[[nodiscard]] std::unique_ptr<Transport> make_copy_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                             std::vector<SignalMemory> signals, int sm_count);

} // namespace mc2::executor::cuda
