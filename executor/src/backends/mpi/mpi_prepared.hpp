#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/mpi/block_layout.hpp"
#include "backends/mpi/collective.hpp"
#include "backends/mpi/direct_collective.hpp"
#include "backends/mpi/mpi_communicator.hpp"
#include "backends/mpi/node_heap.hpp"
#include "lanes/compute_device.hpp"
#include "lanes/symmetric_heap.hpp"
#include "run_mode.hpp"
#include "stage.hpp"

namespace mc2::executor::mpi {

/// A stage list bound to one rank's buffers. The lanes work as the host backend's do, except that a block's
/// collective needs only the own product: the collective itself waits for the others'.
class MpiPrepared final : public Prepared, private lanes::LaneTask {
 public:
  struct Settings {
    MpiVariant variant;
    bool allow_independent = false;
    std::string call; ///< what every rank does here, to be compared at each run
    RowSplits splits; ///< of all ranks
    /// For variants that read the peers' memory, in segments of SegmentLayout; null for the others.
    std::unique_ptr<NodeHeap> node_heap;
  };

  /// The arguments have been checked; `communicator` and the buffers outlive *this. Throws SystemError.
  MpiPrepared(MpiCommunicator& communicator, const StageList& stages, const RankBuffers& buffers, Settings settings);

  using Prepared::run;
  /// The record's makespan and wall are the slowest rank's, the same on every rank; its stages are this rank's.
  const RunRecord& run(RunMode mode, RunDetail detail) override;

 private:
  void build();
  void place_matrices(const RankBuffers& buffers);
  void place_intermediates(lanes::RankMatrices& of, std::span<std::byte> segment) const;
  [[nodiscard]] std::unique_ptr<Collective> make_collective() const;
  void run_lane(int rank, planner::Lane lane) noexcept override;
  void compute();
  void communicate();
  [[nodiscard]] BlockExchange exchange_of(std::size_t stage);
  [[nodiscard]] const lanes::RankMatrices& own() const noexcept {
    return matrices_[static_cast<std::size_t>(communicator_.rank())];
  }
  [[nodiscard]] bool is_first(planner::Lane lane) const noexcept { return lane == list_.first_lane; }
  void finish_stage(planner::Lane lane);
  /// Waits for what the lane needs for a stage, in a mode that has it wait.
  void await(planner::Lane lane, std::size_t stage);
  [[nodiscard]] StageTime multiply(const lanes::MatmulWork& work);
  [[nodiscard]] bool matmul_has_work() const noexcept;
  /// Between two looks of the communication lane. It sleeps only beside a matmul: with nothing to make room for, sleep
  /// would just delay what has come. Throws lanes::RunAborted.
  void pause() const;
  [[nodiscard]] std::string progress() const;
  void finish_record(RunMode mode, std::chrono::nanoseconds wall);

  MpiCommunicator& communicator_;
  StageList list_;
  Settings settings_;
  std::array<std::string, kRunModeCount> calls_; ///< by run mode
  SegmentLayout layout_;
  std::unique_ptr<lanes::SymmetricHeap> own_heap_; ///< null where the settings bring a heap
  std::vector<lanes::RankMatrices> matrices_;      ///< by rank; of the others what this one has mapped
  lanes::PieceAddresses pieces_;                   ///< of the block that is being exchanged
  std::span<std::byte> staging_;
  lanes::MatmulWork local_work_;
  std::vector<lanes::MatmulWork> stage_work_;
  std::unique_ptr<lanes::ComputeDevice> device_;
  std::unique_ptr<Collective> collective_;
  std::array<std::atomic<std::uint32_t>, 2> finished_{}; ///< stages of the compute and the communication lane
  std::atomic<bool> local_is_done_{true};
  std::chrono::nanoseconds gathered_end_{0}; ///< when the caller's gathered A was complete; zero without
  RunRecord record_;
};

} // namespace mc2::executor::mpi
