#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/direct.hpp"
#include "backends/cuda/handles.hpp"
#include "backends/cuda/variants.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::cuda {

/// Carries the collectives of one operator's blocks.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Enqueues `rank`'s part of a block's collective on its communication stream and returns; can be captured. Called on
  /// the rank's own thread; all ranks enqueue the same blocks in the same order. Throws SystemError.
  virtual void enqueue(int rank, const BlockExchange& block, cudaStream_t stream) const = 0;
};

[[nodiscard]] std::unique_ptr<Transport> make_direct_transport(const planner::OpSpec& op, const CudaVariant& variant,
                                                               std::vector<SignalMemory> signals);

/// @param communicators by rank; outlive the transport
[[nodiscard]] std::unique_ptr<Transport> make_nccl_transport(const planner::OpSpec& op,
                                                             const std::vector<NcclCommunicator>& communicators);

/// Every rank pulls its peers' pieces, the next rank's first, through its copy engine. All-gather only.
[[nodiscard]] std::unique_ptr<Transport> make_copy_transport(const planner::OpSpec& op,
                                                             std::vector<SignalMemory> signals);

} // namespace mc2::executor::cuda
