#pragma once

#include <cstddef>
#include <cstdint>

#include "lanes/block_exchange.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::mpi {

using lanes::BlockExchange;

/// Whether the collective takes a block's pieces of all ranks as one array (reduce_scatter, all_gather), so that what
/// passes between the lanes has to be staged (lanes::RankMatrices).
[[nodiscard]] bool has_joined_pieces(const planner::OpSpec& op) noexcept;

/// Elements of one row, or column, of the cut axis that a rank sends another.
[[nodiscard]] std::int64_t exchanged_elements(const planner::OpSpec& op) noexcept;

/// What a rank sends another of the longest of `stages`.
[[nodiscard]] std::int64_t longest_piece_bytes(const StageList& list) noexcept;

/// Memory for what messages bring of the longest of `stages` and C takes in another shape: sums of columns, and
/// features that lie side by side.
[[nodiscard]] std::int64_t staging_bytes(const StageList& list) noexcept;

/// Where a collective leaves the sum: in C, or else in the block's staging memory.
[[nodiscard]] std::byte* sum_arrival(const BlockExchange& block) noexcept;

/// Where a message leaves another rank's piece: where it lands, or else in the staging memory; null for an own piece
/// that the local part reads where it is.
[[nodiscard]] std::byte* arrival_of(const BlockExchange& block, int rank) noexcept;

/// Where all ranks' pieces are gathered, rank 0's first.
[[nodiscard]] std::byte* gathered(const BlockExchange& block) noexcept;

/// Brings what has arrived to its place in C and adds bias and residual, in f32, each sum or row rounded once more.
void finish(const BlockExchange& block) noexcept;

} // namespace mc2::executor::mpi
