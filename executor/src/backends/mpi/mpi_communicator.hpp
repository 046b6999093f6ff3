#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "backends/mpi/agreement.hpp"
#include "backends/mpi/rails.hpp"
#include "lanes/lane_threads.hpp"
#include "lanes/run_control.hpp"
#include "mc2/executor/backend.hpp"
#include "node/node_heap.hpp"

namespace mc2::executor::mpi {

/// This process's rank, with a compute and a communication thread. The other ranks are other processes, which call the
/// same functions in the same order. The arguments of a call are compared over all ranks before any data is exchanged.
class MpiCommunicator final : public Communicator {
 public:
  /// The options are valid and fit the world. Order: collective.
  /// Errors: Mismatch if ranks differ in options or machine. Throws SystemError.
  [[nodiscard]] static Result<std::unique_ptr<MpiCommunicator>> open(const CommunicatorOptions& options);

  [[nodiscard]] int world_size() const noexcept override { return options_.world_size; }
  [[nodiscard]] std::span<const int> local_ranks() const noexcept override { return {&rank_, 1}; }
  [[nodiscard]] const planner::Fingerprint& fingerprint() const noexcept override { return fingerprint_; }
  [[nodiscard]] bool uses_host_memory() const noexcept override { return true; }
  [[nodiscard]] std::unique_ptr<RankMemory> allocate(int rank, std::size_t byte_count) override;
  [[nodiscard]] Result<void> share_error(const Result<void>& own) override { return agreement_.share_error(own); }
  /// Order: collective. Errors: as Communicator::prepare, the same on every rank: the error of one rank, with its
  /// number in front, or Mismatch if ranks differ in operator, blocks, variant or options.
  [[nodiscard]] Result<std::unique_ptr<Prepared>> prepare_stages(const StageList& stages,
                                                                 const planner::Variant& variant,
                                                                 std::span<const RankBuffers> buffers,
                                                                 const PrepareOptions& options) override;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] lanes::RunControl& control() noexcept { return control_; }
  [[nodiscard]] const Channel& channel() const noexcept { return channel_; }
  [[nodiscard]] const std::vector<Rail>& rails() const noexcept { return rails_; }
  [[nodiscard]] const RingOrder& ring_order() const noexcept { return ring_order_; }
  [[nodiscard]] Agreement& agreement() noexcept { return agreement_; }
  /// The flag for RunTurn: set while a thread runs on this communicator.
  [[nodiscard]] std::atomic_flag& turn() noexcept { return turn_; }

  /// Runs `task` on the lanes that `mode` uses and returns when both lanes have finished. Starts once every rank has
  /// come with the same `call`; throws SystemError if the calls differ. A lane that fails or passes the deadline ends
  /// the job; the message names this rank. Past the deadline it also says, by roll call, how far the other ranks are.
  void execute(lanes::LaneTask& task, RunMode mode, const std::string& call,
               const std::function<std::string()>& progress);

  /// Runs `work` once on the compute lane's thread and throws what `work` throws.
  void call_on_compute_lane(const std::function<void()>& work) {
    threads_->call(planner::Lane::Compute, [&](int /*rank*/) { work(); });
  }

 private:
  explicit MpiCommunicator(const CommunicatorOptions& options);
  /// Makes memory that the ranks of a node share. Order: collective. Errors: Unsupported, the same on every rank.
  [[nodiscard]] Result<std::unique_ptr<node::NodeHeap>> make_node_heap(std::size_t bytes_per_rank);

  CommunicatorOptions options_;
  std::atomic_flag turn_;
  int rank_;
  planner::Fingerprint fingerprint_;
  Channel channel_; ///< used by the communication lane
  std::vector<Rail> rails_;
  RingOrder ring_order_;
  Agreement agreement_;
  lanes::RunControl control_;
  // Declared last: the threads use all members above, so they must be joined before those are destroyed.
  std::unique_ptr<lanes::LaneThreads> threads_;
};

} // namespace mc2::executor::mpi
