#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "lanes/block_exchange.hpp"
#include "lanes/block_layout.hpp"
#include "lanes/compute_device.hpp"
#include "lanes/lane_thread.hpp"
#include "lanes/peer_order.hpp"
#include "lanes/run_control.hpp"
#include "mc2/executor/communicator.hpp"
#include "row_splits.hpp"
#include "run_mode.hpp"
#include "stage.hpp"

namespace mc2::executor::lanes {

/// How the lanes of a prepared plan go about their stages.
struct LaneRules {
  std::size_t slice_count = 1; ///< parts of a stage; with several each is what one peer sends
  PeerOrder order = PeerOrder::Staggered;
  /// A communication lane waits for a part on every local rank, not on its own alone.
  bool reads_peers = false;
  /// A lane that waits past the run's deadline fails; else it waits for ever, and who started the run sees to it.
  bool watches_deadline = false;
};

/// A stage list on the lanes of this process's ranks: what they do, in which order, and when they did it.
///
/// Kinds that compute first: each compute lane multiplies its blocks into its own intermediate and signals each block;
/// each communication lane waits for a block and exchanges it. Kinds that communicate first: each communication lane
/// exchanges a block of A, which is there from the start, and signals it, at once or peer by peer; the same rank's
/// compute lane multiplies its own shard, then what has come, in the same order. A block is written once and read once
/// per run, and the next run starts only after all lanes have finished this one, so there is no barrier inside a run.
class LanePrepared : public Prepared, protected LaneTask {
 protected:
  struct alignas(64) RankState { // a cache line each: every rank's lanes write their own
    MatmulWork local_work;
    std::vector<StagePart> parts; ///< every stage in its slices
    std::vector<MatmulWork> work; ///< by part
    std::unique_ptr<ComputeDevice> device;
    std::span<std::byte> staging;            ///< BlockExchange's
    std::vector<Clock::time_point> ready_at; ///< by part: end on the first lane; published by the rank's signal
    PieceAddresses pieces;                   ///< of the part that is being exchanged
    /// When what follows the last block was done: the caller's gathered A, the norm of columns; zero without.
    std::chrono::nanoseconds completed_end{0};
  };

  /// When the first lane started and the last ended, since the run's start.
  struct LaneSpan {
    std::chrono::nanoseconds first, last;
  };

  /// @param ranks neighbours; `control` counts them from 0 and outlives *this
  LanePrepared(RunControl& control, const StageList& stages, std::span<const int> ranks, RowSplits splits);

  /// What each rank computes, where `matrices_` says; once, before build_device() and run().
  void plan_work(const LaneRules& rules);
  /// On the rank's compute lane.
  void build_device(int rank);

  /// The mode that a run takes. Aborts for Independent without a spare intermediate.
  [[nodiscard]] RunMode checked_mode(RunMode asked) const;
  void clear_times() noexcept;
  /// Of the run that has ended.
  [[nodiscard]] LaneSpan lane_span() const noexcept;

  /// On the rank's communication lane. Throws RunAborted and SystemError.
  virtual ExchangeTimes exchange(const BlockExchange& block) = 0;
  /// Before a lane waits for what its stage needs.
  virtual void begin_stage(int /*rank*/, planner::Lane /*lane*/, std::size_t /*stage*/) {}
  /// Called where the lane's exception is being handled: all but RunAborted.
  virtual void fail(int rank, planner::Lane lane) noexcept = 0;

  void run_lane(int rank, planner::Lane lane) noexcept final;
  [[nodiscard]] bool is_first(planner::Lane lane) const noexcept { return lane == list_.first_lane; }
  [[nodiscard]] std::size_t place_of(int rank) const noexcept {
    return static_cast<std::size_t>(rank - record_.ranks.front().rank);
  }
  [[nodiscard]] RankState& state_of(int rank) noexcept { return ranks_[place_of(rank)]; }
  [[nodiscard]] RankMatrices& matrices_of(int rank) noexcept { return matrices_[static_cast<std::size_t>(rank)]; }

  RunControl& control_;
  StageList list_;
  RowSplits splits_;
  std::vector<RankMatrices> matrices_; ///< by rank of the world; of ranks elsewhere what this process reaches
  std::vector<RankState> ranks_;       ///< the local ones, in their order; so is the record
  RunRecord record_;

 private:
  void compute(int rank);
  void communicate(int rank);
  /// What can follow the last block only. Returns whether there is anything.
  bool complete(int rank) noexcept;
  /// Carries out a stage, part by part.
  template <typename RunPart>
  [[nodiscard]] StageTime run_stage(int rank, planner::Lane lane, std::size_t stage, const RunPart& run_part);
  void hand_over(int rank, std::size_t part, Clock::time_point end);
  /// When what the lane needs for a part became ready; waits for it in a mode that has it wait.
  [[nodiscard]] Clock::time_point ready_time(int rank, planner::Lane lane, std::size_t part);
  [[nodiscard]] Clock::time_point wait_for(int rank, int peer, std::size_t part);
  [[nodiscard]] BlockExchange exchange_of(int rank, std::size_t part, Clock::time_point ready);

  LaneRules rules_;
};

/// "rank 1, communication lane".
[[nodiscard]] std::string lane_text(int rank, planner::Lane lane);

} // namespace mc2::executor::lanes
