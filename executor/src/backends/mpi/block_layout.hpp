#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/host/block_layout.hpp"
#include "mc2/executor/stage.hpp"

namespace mc2::executor::mpi {

/// What one stage exchanges. What passes between the lanes lies stage after stage, and in a stage rank after rank, so
/// that a collective finds its pieces one behind the other although they are rows of every rank's shard.
struct BlockExchange {
  planner::OpKind kind = planner::OpKind::MatmulAllReduce;
  std::int64_t piece_count = 0; ///< elements of a rank's piece; all_reduce: of the whole block
  const std::byte* send = nullptr;
  std::byte* receive = nullptr; ///< all_gather_matmul: room for the pieces of all ranks
};

/// As host::stage_work, in this layout.
[[nodiscard]] host::MatmulWork staged_work(const planner::OpSpec& op, int rank, const Stage& stage,
                                           const host::RankMatrices& own);

/// @param uses_spare exchange the spare intermediate, which the compute lane does not touch
[[nodiscard]] BlockExchange exchange_of(const planner::OpSpec& op, const Stage& stage, const host::RankMatrices& own,
                                        bool uses_spare);

} // namespace mc2::executor::mpi
