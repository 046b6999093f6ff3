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

  /// In how many slices a block passes between the lanes.
  [[nodiscard]] virtual int slice_count() const noexcept { return 1; }
  /// Where there are several: of which ranks a slice holds the rows that `rank` needs or makes. Where the matmul comes
  /// first the last slice is the rank's own.
  [[nodiscard]] virtual RankRange slice_ranks(int rank, int slice) const;
  /// Whether peers' memory is reached by its address. Else BlockExchange needs the rank's own only.
  [[nodiscard]] virtual bool reaches_peers() const noexcept { return true; }
  /// Whether NCCL carries some of it, whose calls all ranks capture alike, or none.
  [[nodiscard]] virtual bool uses_nccl() const noexcept { return !reaches_peers(); }
  /// Whether what is sent of the caller's is among that, rather than our own memory alone.
  [[nodiscard]] virtual bool reaches_sent() const noexcept { return reaches_peers(); }
  /// Whether peers write to a rank's receive memory, rather than the rank itself.
  [[nodiscard]] virtual bool writes_to_peers() const noexcept { return false; }
  /// Enqueues `rank`'s part of a slice of a block's collective on its communication stream and returns; can be
  /// captured. Called on the rank's own thread; all ranks enqueue the same slices in the same order. Throws
  /// SystemError.
  virtual void enqueue(int rank, const BlockExchange& block, int slice, cudaStream_t stream) const = 0;

  /// Whether `rank`'s last slice of a block and what follows its sum are one kernel. Ranks may differ.
  [[nodiscard]] virtual bool finishes(int /*rank*/, const BlockExchange& /*block*/,
                                      const RowEpilogue& /*epilogue*/) const {
    return false;
  }
  /// Enqueues both, where finishes(). Throws SystemError.
  virtual void enqueue_and_finish(int rank, const BlockExchange& block, const RowEpilogue& epilogue,
                                  cudaStream_t stream) const;

  /// Whether the matmuls' memory is to be registered first, by every rank on its own thread: collective. Throws
  /// SystemError.
  [[nodiscard]] virtual bool has_windows() const { return false; }
  virtual void register_memory(int /*rank*/, std::span<std::byte> /*memory*/) {}
  /// Collective too; before the memory goes.
  virtual void release_memory(int /*rank*/) {}
  /// Whether the collectives are promised to leave all SMs alone.
  [[nodiscard]] virtual bool takes_no_sm() const { return false; }

  /// How many of a run's blocks, from the first on, one kernel carries that is there from the start. The rest is
  /// enqueued block by block. The same for every rank and for the same lengths.
  [[nodiscard]] virtual std::size_t span_length(const std::vector<BlockExchange>& /*blocks*/) const { return 0; }
  /// Enqueues `rank`'s part of the collectives of a span of blocks. `waits`: each starts when every rank has called
  /// announce() for it. Throws SystemError.
  virtual void enqueue_span(int rank, const std::vector<BlockExchange>& blocks, bool waits, cudaStream_t stream) const;
  /// Enqueues the word that `rank`'s next block of the span is ready.
  virtual void announce(int rank, cudaStream_t stream) const;
};

/// Whether a variant's transport uses BlockExchange::staging, of staging_bytes().
[[nodiscard]] bool stages_pieces(const planner::OpSpec& op, const CudaVariant& variant) noexcept;

/// Whether matmuls take turns on two streams, so that one fills the last wave of the one before: not beside a
/// collective's kernel, whose SMs the second would take.
[[nodiscard]] bool uses_two_streams(const StageList& stages, const CudaVariant& variant) noexcept;

/// Which of the caller's matrices peers reach; A is what kinds that communicate first send, C what the others receive.
[[nodiscard]] PeerReach reach_of(const Transport& transport, planner::Lane first_lane) noexcept;

/// @param sm_count the fewest that a rank's device has: the same on all ranks
[[nodiscard]] std::unique_ptr<Transport> make_direct_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                               std::vector<SignalMemory> signals, int sm_count);

/// All-reduce and reduce-scatter by one kernel for all blocks, so that few SMs suffice and none change hands. With few
/// thread blocks, the last block of rows is left to a kernel of its own: nothing runs beside it, so it may take many.
[[nodiscard]] std::unique_ptr<Transport> make_persistent_transport(const planner::OpSpec& op,
                                                                   const CudaVariant& variant,
                                                                   std::vector<SignalMemory> signals);

/// @param communicators by rank, null for those of other processes, as the variant asks; outlive the transport
[[nodiscard]] std::unique_ptr<Transport> make_nccl_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                             std::vector<ncclComm_t> communicators);

/// A rank among those of its host and of the others.
struct HostsPlace {
  int host_count = 1, ranks_per_host = 1; ///< rank r is number r % ranks_per_host of host r / ranks_per_host
  SignalMemory inside;                    ///< of the ranks of this host, by their number there
  ncclComm_t rail = nullptr;              ///< of the ranks of this number, by host
};

/// Of dense pieces: inside a host through the exchange memory of its ranks, between hosts by NCCL, each rank with those
/// of its number. An all-reduce and a reduce-scatter sum over the host first, an all-gather passes on inside it what
/// the rails have brought, by copy engines, so that every piece crosses between hosts once.
[[nodiscard]] std::unique_ptr<Transport> make_hierarchical_transport(const planner::OpSpec& op,
                                                                     const CudaVariant& variant, HostsPlace place);

/// Copies by copy engines, to or from the next rank first, so that no link is hit by all at once. Kinds that
/// communicate first pull their peers' pieces; where slices double, from rank ^ 1, rank ^ 2 and so on: then, too, every
/// rank reads another peer, and the ranks of a slice follow one another. Those that compute first push theirs; what is
/// to be summed waits in staging memory until all have arrived, and is summed by the SMs, for an all-reduce each rank's
/// share of a block.
/// @param sm_count of every rank's device
[[nodiscard]] std::unique_ptr<Transport> make_copy_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                             std::vector<SignalMemory> signals, int sm_count);

} // namespace mc2::executor::cuda
