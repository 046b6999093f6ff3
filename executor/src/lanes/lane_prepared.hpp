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

/// How the lanes of a prepared plan work through their stages.
struct LaneRules {
  std::size_t slice_count = 1; ///< slices of a stage; if more than 1, each is the part that one peer sends
  PeerOrder order = PeerOrder::Staggered;
  /// True: a communication lane waits for a part on every local rank. False: only on its own rank.
  bool reads_peers = false;
  /// True: a lane that waits past the run's deadline fails. False: it waits for ever, and the run's caller watches the
  /// deadline.
  bool watches_deadline = false;
};

/// Runs a stage list on the lanes of this process's ranks, and records the times.
///
/// Kinds that compute first: each compute lane multiplies its blocks into its own intermediate and signals each block;
/// each communication lane waits for a block and exchanges it. Kinds that communicate first: each communication lane
/// exchanges blocks of A, which need no wait, and signals each block, whole or peer by peer; the same rank's compute
/// lane multiplies its own shard and then the blocks in the same order. A block is written once and read once per run,
/// and the next run starts only after all lanes have finished this one, so there is no barrier inside a run.
class LanePrepared : public Prepared, protected LaneTask {
 protected:
  struct alignas(64) RankState { // no shared cache lines, because the lanes of every rank write their own state
    MatmulWork local_work;
    std::vector<StagePart> parts; ///< the slices of all stages
    std::vector<MatmulWork> work; ///< by part
    std::unique_ptr<ComputeDevice> device;
    std::span<std::byte> staging;            ///< for BlockExchange::staging
    std::vector<Clock::time_point> ready_at; ///< by part: end on the first lane; published by the rank's signal
    PieceAddresses pieces;                   ///< addresses of the part that is being exchanged
    /// When complete() ended, which makes the gathered A or the norm after the last block; zero if it has nothing to
    /// do.
    std::chrono::nanoseconds completed_end{0};
  };

  /// When the first lane started and the last lane ended, relative to the run's start.
  struct LaneSpan {
    std::chrono::nanoseconds first, last;
  };

  /// @param control  counts the ranks from 0; must outlive *this
  /// @param ranks    consecutive
  LanePrepared(RunControl& control, const StageList& stages, std::span<const int> ranks, RowSplits splits);

  /// Determines each rank's matmuls from `matrices_`. Called once, before build_device() and run().
  void plan_work(const LaneRules& rules);
  /// Writes every page of the rank's intermediates once, on the rank's compute lane. Otherwise a read would hit the
  /// kernel's shared page of zeros, which is faster than real data.
  /// @param is_read_unwritten  whether a lane may read an intermediate that none has written, which then gets random
  ///                           numbers; so it is always in kinds that communicate first
  void touch(int rank, bool is_read_unwritten);
  /// Called on the rank's compute lane.
  void build_device(int rank);

  /// The mode that a run has. Aborts for Independent without a spare intermediate.
  [[nodiscard]] RunMode checked_mode(RunMode asked) const;
  void clear_times() noexcept;
  /// The span of the last run, which must have ended.
  [[nodiscard]] LaneSpan lane_span() const noexcept;

  /// Carries out an exchange. Called on the rank's communication lane. Throws RunAborted and SystemError.
  virtual ExchangeTimes exchange(const BlockExchange& block) = 0;
  /// Called before a lane waits for the data of a stage.
  virtual void begin_stage(int /*rank*/, planner::Lane /*lane*/, std::size_t /*stage*/) {}
  /// Called in the catch block for a lane's exception, except for RunAborted.
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
  std::vector<RankMatrices> matrices_; ///< by rank of the world; for other processes' ranks the memory in reach
  std::vector<RankState> ranks_;       ///< by local rank, in the same order as record_.ranks
  RunRecord record_;

 private:
  void compute(int rank);
  void communicate(int rank);
  /// Does what can only follow the last block. Returns whether there was anything to do.
  bool complete(int rank) noexcept;
  /// Runs a stage, part by part.
  template <typename RunPart>
  [[nodiscard]] StageTime run_stage(int rank, planner::Lane lane, std::size_t stage, const RunPart& run_part);
  void hand_over(int rank, std::size_t part, Clock::time_point end);
  /// When the data that the lane needs for a part became ready. Waits for them, unless the mode lets lanes run freely.
  [[nodiscard]] Clock::time_point ready_time(int rank, planner::Lane lane, std::size_t part);
  [[nodiscard]] Clock::time_point wait_for(int rank, int peer, std::size_t part);
  [[nodiscard]] BlockExchange exchange_of(int rank, std::size_t part, Clock::time_point ready);

  LaneRules rules_;
};

/// "rank 1, communication lane".
[[nodiscard]] std::string lane_text(int rank, planner::Lane lane);

} // namespace mc2::executor::lanes
