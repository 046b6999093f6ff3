#pragma once

#include <cstddef>
#include <optional>

#include "mc2/executor/communicator.hpp"
#include "mc2/planner/profile.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

/// A lane's mean time per full block on its slowest rank.
struct BlockTime {
  double block_us = 0;
  int rank = 0;
  int block_count = 0;
  double local_us = 0; ///< of the matmul lane: the slowest rank's own shard, before its blocks
  /// Mean time from one of its blocks to the next, which the lane spends on signals and on waiting for its peers; unset
  /// for a lane of one block.
  std::optional<double> hand_over_us = std::nullopt;
};

/// Mean over the first `full_count` blocks, what lies between them included, of the lane that runs the component.
/// The record has at least `full_count` >= 1 blocks.
[[nodiscard]] BlockTime mean_block(const RunRecord& record, planner::Component component, std::size_t full_count);

/// Time of a block of a RunMode::Independent record that is under contention from start to end. With the lane s times
/// slower while the other works, blocks of `alone_us` together take total = alone_us + overlap (1 - 1/s), which gives
/// s; a lane that the other leaves early is thus judged by the part that it shared. s is at most 20.
/// @param alone  the lane's times without the other, by mean_block
[[nodiscard]] BlockTime contended_block(const RunRecord& record, planner::Component component, std::size_t full_count,
                                        const BlockTime& alone);

} // namespace mc2::executor

#pragma GCC visibility pop
