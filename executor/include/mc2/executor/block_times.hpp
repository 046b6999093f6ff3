#pragma once

#include <cstddef>
#include <optional>

#include "mc2/executor/communicator.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

/// A lane's mean time per block of full length, on the rank where the lane is slowest.
struct BlockTime {
  double block_us = 0;
  int rank = 0;        ///< the slowest rank
  int block_count = 0; ///< blocks that the mean is taken over
  double local_us = 0; ///< matmul lane: longest time that any rank takes for its own shard, before the blocks
  /// Mean gap between the end of a block and the start of the next: the lane signals and waits for its peers. Unset for
  /// a lane of one block.
  std::optional<double> hand_over_us = std::nullopt;
};

/// The mean over the first `full_count` blocks of the lane that runs `component`, gaps between them included.
/// The record must have at least `full_count` >= 1 blocks.
[[nodiscard]] BlockTime mean_block(const RunRecord& record, planner::Component component, std::size_t full_count);

/// Time of a run besides the work of the lane that ran alone in it: its record's wall time without the time from the
/// lane's first start to its last end, on the rank where that is longest. 0 where the record's wall time begins with
/// the lane, as that of a GPU's clock does.
/// @param record of RunMode::ComputeOnly or CommunicationOnly, as `component` says
[[nodiscard]] std::chrono::nanoseconds start_time(const RunRecord& record, planner::Component component);

/// The time of a block while the other lane works from its start to its end, from a RunMode::Independent record. A lane
/// that is s times slower while the other works takes total = alone_us + overlap (1 - 1/s) for blocks that take
/// alone_us alone and overlap the other lane's work for `overlap`. Solving for s uses only the time that both lanes
/// worked, so it does not matter if the other lane ends early. s is at most 20.
/// @param alone  mean_block() of this lane without the other
[[nodiscard]] BlockTime contended_block(const RunRecord& record, planner::Component component, std::size_t full_count,
                                        const BlockTime& alone);

} // namespace mc2::executor

#pragma GCC visibility pop
