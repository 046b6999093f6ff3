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
  planner::DType dtype = planner::DType::F32;
  std::int64_t row_count = 0;   ///< of a rank's piece; all_reduce: of the whole block
  std::int64_t piece_count = 0; ///< elements of those rows
  const std::byte* send = nullptr;  ///< the piece for rank 0, or for all
  std::byte* receive = nullptr;     ///< where the piece of rank 0, or of all, goes
  std::int64_t send_stride = 0;     ///< elements from one rank's piece to the next; 0 where all get the same
  std::int64_t receive_stride = 0;  ///< elements from one rank's piece to the next; 0 where they are summed

  [[nodiscard]] std::int64_t bytes(std::int64_t elements) const noexcept {
    return elements * planner::size_bytes(dtype);
  }
  [[nodiscard]] std::int64_t piece_bytes() const noexcept { return bytes(piece_count); }
  [[nodiscard]] const std::byte* outgoing(int rank) const noexcept { return send + bytes(rank * send_stride); }
  [[nodiscard]] std::byte* landing(int rank) const noexcept { return receive + bytes(rank * receive_stride); }
};

/// Columns of the rows that the ranks exchange: of the product, or of A where rows of A are brought together.
[[nodiscard]] std::int64_t exchanged_columns(const planner::OpSpec& op) noexcept;

/// As host::stage_work, in this layout.
[[nodiscard]] host::MatmulWork staged_work(const planner::OpSpec& op, int rank, const Stage& stage,
                                           const host::RankMatrices& own);

/// @param uses_spare exchange the spare intermediate, which the compute lane does not touch
[[nodiscard]] BlockExchange exchange_of(const planner::OpSpec& op, const Stage& stage, const host::RankMatrices& own,
                                        bool uses_spare);

} // namespace mc2::executor::mpi
