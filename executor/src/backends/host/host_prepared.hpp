#pragma once

#include <memory>
#include <vector>

#include "backends/host/host_communicator.hpp"
#include "backends/host/variants.hpp"
#include "lanes/block_layout.hpp"
#include "lanes/compute_device.hpp"
#include "lanes/lane_thread.hpp"
#include "lanes/symmetric_heap.hpp"
#include "mc2/executor/communicator.hpp"
#include "stage.hpp"

namespace mc2::executor::host {

/// A stage list bound to buffers: what passes between the lanes in a symmetric heap, the kernels, and the lanes'
/// loops.
///
/// Kinds that compute first: each compute lane multiplies its blocks into its own partial product and signals each
/// block with the time at which it became ready; each communication lane waits for a block on all ranks, sums or
/// copies it and writes its own C. Kinds that communicate first: each communication lane copies a block of the
/// others' A, which is there from the start, and signals it, at once or peer by peer; the same rank's compute lane
/// multiplies its own shard, then what has come, in the same order. A block is written once and read once per run,
/// and the next run starts only after all lanes have finished this one, so there is no barrier inside a run.
class HostPrepared final : public Prepared, private lanes::LaneTask {
 public:
  /// The arguments have been checked; `communicator` and the buffers outlive *this. Throws SystemError.
  HostPrepared(HostCommunicator& communicator, const StageList& stages, const HostVariant& variant,
               std::span<const RankBuffers> buffers, const PrepareOptions& options);

  using Prepared::run;
  const RunRecord& run(RunMode mode, RunDetail detail) override;
  [[nodiscard]] std::span<const std::span<const std::byte>> intermediates() const noexcept override {
    return intermediates_;
  }

 private:
  struct alignas(64) RankState { // a cache line each: every rank's lanes write their own
    lanes::MatmulWork local_work;
    std::vector<lanes::StagePart> parts; ///< every stage in its slices
    std::vector<lanes::MatmulWork> work; ///< by part
    std::unique_ptr<lanes::ComputeDevice> device;
    std::vector<std::byte> staging;
    std::vector<lanes::Clock::time_point> ready_at; ///< by part: end on the first lane; published by the rank's signal
    lanes::PieceAddresses pieces;                   ///< of the part that is being exchanged
    std::chrono::nanoseconds gathered_end{0};       ///< when the caller's gathered A was complete; zero without
  };

  void allocate(std::span<const RankBuffers> buffers, bool allow_independent);
  void plan_work(int rank);
  void build(int rank);
  void touch(const lanes::RankMatrices& own, int rank) const;
  void run_lane(int rank, planner::Lane lane) noexcept override;
  void compute(int rank);
  void communicate(int rank);
  [[nodiscard]] bool is_first(planner::Lane lane) const noexcept { return lane == list_.first_lane; }
  /// Carries out a stage, part by part.
  template <typename RunPart>
  [[nodiscard]] StageTime run_stage(int rank, planner::Lane lane, std::size_t stage, const RunPart& run_part);
  void hand_over(int rank, std::size_t part, lanes::Clock::time_point end);
  /// When what the lane needs for a part became ready; waits for it in a fused run.
  [[nodiscard]] lanes::Clock::time_point ready_time(int rank, planner::Lane lane, std::size_t part);
  [[nodiscard]] lanes::Clock::time_point wait_for(int rank, int peer, std::size_t part);
  [[nodiscard]] lanes::BlockExchange exchange_of(int rank, std::size_t part, lanes::Clock::time_point ready);
  void call_hook(int rank, planner::Lane lane, std::size_t stage) const;
  void finish_record();

  HostCommunicator& communicator_;
  StageList list_;
  RowSplits splits_;
  lanes::PeerOrder order_;
  std::size_t slice_count_;              ///< parts of a stage
  std::unique_ptr<Transport> mechanism_; ///< null: the communicator's transport
  Transport& transport_;
  std::unique_ptr<lanes::SymmetricHeap> heap_;
  std::vector<lanes::RankMatrices> matrices_; ///< by rank
  std::vector<RankState> ranks_;              ///< by rank
  std::vector<std::span<const std::byte>> intermediates_;
  RunRecord record_;
};

} // namespace mc2::executor::host
