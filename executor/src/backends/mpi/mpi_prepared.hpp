#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "backends/mpi/block_layout.hpp"
#include "backends/mpi/collective.hpp"
#include "backends/mpi/direct_collective.hpp"
#include "backends/mpi/mpi_communicator.hpp"
#include "lanes/lane_prepared.hpp"
#include "lanes/symmetric_heap.hpp"
#include "node/node_heap.hpp"

namespace mc2::executor::mpi {

/// A stage list bound to one rank's buffers. A block's collective starts when the own product is ready; the collective
/// itself waits for the products of other ranks.
class MpiPrepared final : public lanes::LanePrepared {
 public:
  struct Settings {
    MpiVariant variant;
    bool allow_independent = false;
    std::string call; ///< text of the prepare() call, which ranks compare at each run
    /// Memory shared by the node's ranks, for variants that use it, with segments of SegmentLayout; else null.
    std::unique_ptr<node::NodeHeap> node_heap;
  };

  /// The arguments have been checked; `communicator` and the buffers outlive *this. Throws SystemError.
  /// @param splits the splits of all ranks
  MpiPrepared(MpiCommunicator& communicator, const StageList& stages, const RankBuffers& buffers, RowSplits splits,
              Settings settings);

  using Prepared::run;
  /// In the record, makespan and wall are those of all ranks together, equal on every rank; the stages are this rank's.
  const RunRecord& run(RunMode mode, RunDetail detail) override;

 private:
  void build();
  void place_matrices(const RankBuffers& buffers);
  void place_intermediates(lanes::RankMatrices& of, std::span<std::byte> segment) const;
  [[nodiscard]] std::unique_ptr<Collective> make_collective() const;
  [[nodiscard]] lanes::ExchangeTimes exchange(const BlockExchange& block) override;
  void begin_stage(int rank, planner::Lane lane, std::size_t stage) override;
  void fail(int rank, planner::Lane lane) noexcept override;
  [[nodiscard]] bool matmul_has_work() const noexcept;
  /// Called between two looks of the communication lane. Sleeps only while a matmul needs the core; otherwise sleep
  /// would just delay data that has arrived. Throws lanes::RunAborted.
  void pause() const;
  [[nodiscard]] std::string progress() const;
  void finish_record(std::chrono::nanoseconds wall);

  MpiCommunicator& communicator_;
  Settings settings_;
  std::array<std::string, kRunModeCount> calls_; ///< by run mode
  SegmentLayout layout_;
  std::unique_ptr<lanes::SymmetricHeap> own_heap_; ///< null if the settings have a heap
  std::unique_ptr<Collective> collective_;
  std::atomic<bool> local_is_done_{true}; ///< whether the matmul of the own shard is done; true if there is none
};

} // namespace mc2::executor::mpi
