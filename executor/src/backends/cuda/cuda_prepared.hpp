#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/bound_plan.hpp"

namespace mc2::executor::cuda {

/// A stage list bound to device buffers. Each rank's whole pipeline is one CUDA graph per run mode. The graph is
/// captured when the mode first runs (Fused: in prepare()) and replayed afterwards. enqueue() has a graph of its own,
/// which takes no times; after rebind() there is one such graph for each set of matrices that comes repeatedly. Where
/// the times of single stages that wait for one another are asked for, the stages are launched one by one instead.
class CudaPrepared final : public Prepared {
 public:
  /// The arguments have been checked; `communicator` and the buffers outlive *this.
  CudaPrepared(CudaCommunicator& communicator, const StageList& stages, const CudaVariant& variant,
               std::unique_ptr<Transport> transport, std::span<const RankBuffers> buffers,
               std::optional<RowRuns> row_runs);
  ~CudaPrepared() override;

  /// Makes memory, matmuls and graphs. Called once, before all other functions. Order: *collective*.
  /// Errors: Unsupported, naming the rank and what its device refused; the communicator stays usable. Throws
  /// SystemError if it cannot stay usable.
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
  bool has_stale_graphs_ = false; ///< the graphs were captured with matrices that have been replaced since
  /// other processes' memory in plan_.places; co-owned by all users of the same allocations
  std::vector<std::shared_ptr<std::byte>> mappings_;
  RunRecord record_;
};

} // namespace mc2::executor::cuda
