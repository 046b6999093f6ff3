#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/bound_plan.hpp"

namespace mc2::executor::cuda {

/// A stage list bound to device buffers. Each rank's whole pipeline is one CUDA graph per run mode, captured when the
/// mode first runs (Fused while preparing) and replayed after. What enqueue() submits takes no times and has a graph of
/// its own; of matrices that come by rebind() there is one for each that come again. Where single stages that wait for
/// one another are timed, they are launched one by one instead.
class CudaPrepared final : public Prepared {
 public:
  /// The arguments have been checked; `communicator` and the buffers outlive *this.
  CudaPrepared(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
               std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers,
               std::optional<RowRuns> row_runs);
  ~CudaPrepared() override;

  /// Before all else, once: memory, matmuls, graphs. Order: *collective*.
  /// Errors: Unsupported, naming the rank and what its device refused; the communicator goes on. Throws SystemError
  /// where that cannot be.
  [[nodiscard]] Result<void> make_ready(const PrepareOptions& options);

  using Prepared::run;
  const RunRecord& run(RunMode mode, RunDetail detail) override;
  [[nodiscard]] Result<void> enqueue(std::span<void* const> streams, Submission submission) override;
  [[nodiscard]] PeerReach peer_reach() const noexcept override {
    return reach_of(*plan_.transport, plan_.list.first_lane);
  }
  [[nodiscard]] Result<void> rebind(std::span<const RankBuffers> buffers) override;

 private:
  void make_memory(int rank, const PrepareOptions& options);
  [[nodiscard]] std::unique_ptr<DeviceMemory> make_exchange(int rank, std::size_t byte_count);
  void build(int rank);
  void share_places();
  [[nodiscard]] std::size_t shortest_span();
  void register_windows(int rank);
  [[nodiscard]] Result<void> check_counts(int rank, const RankBuffers& next) const;
  void replace(int rank, const RankBuffers& next);
  void capture(int rank, RunMode mode);
  void capture_enqueued(int rank);
  void forget_graphs();
  [[nodiscard]] cudaGraphExec_t graph_to_launch(int rank);
  void enqueue_behind(int rank, cudaStream_t stream, Submission submission);

  CudaCommunicator& communicator_;
  BoundPlan plan_;
  bool is_ready_ = false;
  bool has_stale_graphs_ = false; ///< captured with matrices that have been replaced since
  /// shared with all that use the same allocations: other processes' places
  std::vector<std::shared_ptr<std::byte>> mappings_;
  RunRecord record_;
};

} // namespace mc2::executor::cuda
