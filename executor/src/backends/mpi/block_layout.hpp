#pragma once

#include <cstddef>
#include <cstdint>

#include "lanes/block_exchange.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor::mpi {

using lanes::BlockExchange;

/// Whether the collective takes the pieces of all ranks in a block as one array (reduce_scatter, all_gather). Then the
/// memory between the lanes is staged (lanes::RankMatrices).
[[nodiscard]] bool has_joined_pieces(const planner::OpSpec& op) noexcept;

/// Elements that a rank sends each other rank for one row or column of the cut axis.
[[nodiscard]] std::int64_t exchanged_elements(const planner::OpSpec& op) noexcept;

/// Bytes that a rank sends each other rank in the longest of the stages.
[[nodiscard]] std::int64_t longest_piece_bytes(const StageList& list) noexcept;

/// Bytes for the messages of the longest stage whose data has another layout in C: sums of columns, and features that
/// lie side by side. 0 where messages arrive in their final layout.
[[nodiscard]] std::int64_t staging_bytes(const StageList& list) noexcept;

/// Address where a collective leaves the sum: C if the sum is dense there, else the block's staging memory.
[[nodiscard]] std::byte* sum_arrival(const BlockExchange& block) noexcept;

/// Address where a message leaves the piece of `rank`: its landing if that is dense, else the staging memory. Null for
/// an own piece that the local part reads in place.
[[nodiscard]] std::byte* arrival_of(const BlockExchange& block, int rank) noexcept;

/// Address where the pieces of all ranks are gathered, rank 0's first.
[[nodiscard]] std::byte* gathered(const BlockExchange& block) noexcept;

/// Copies arrived data to its place in C and adds bias and residual in f32; each sum or row is rounded once more.
void finish(const BlockExchange& block) noexcept;

} // namespace mc2::executor::mpi
