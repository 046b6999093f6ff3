#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// How many rows each rank has for each other, and where they lie: packed in the order of the ranks, by whom they go to
/// where they are sent from, by whom they come from where they arrive. Where every rank is sent the same rows, to be
/// gathered or summed, these start with the sender's first. A value; safe to share.
class RowSplits {
 public:
  /// m / ranks rows between any two; all m where rows are not divided.
  explicit RowSplits(const planner::OpSpec& op);
  /// What the buffers of all ranks say; equal where they say nothing. check_splits() has passed.
  RowSplits(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

  [[nodiscard]] std::int64_t count(int from, int to) const noexcept { return at(counts_, from, to); }
  [[nodiscard]] std::int64_t send_offset(int from, int to) const noexcept { return at(send_offsets_, from, to); }
  [[nodiscard]] std::int64_t receive_offset(int to, int from) const noexcept { return at(receive_offsets_, to, from); }
  [[nodiscard]] std::int64_t sent_rows(int from) const noexcept;
  [[nodiscard]] std::int64_t received_rows(int to) const noexcept;
  [[nodiscard]] int world_size() const noexcept { return world_size_; }

 private:
  [[nodiscard]] std::int64_t at(const std::vector<std::int64_t>& matrix, int row, int column) const noexcept {
    return matrix[static_cast<std::size_t>(row * world_size_ + column)];
  }
  void add_offsets();

  int world_size_;
  bool all_get_the_same_;
  std::vector<std::int64_t> counts_;          ///< [from, to]
  std::vector<std::int64_t> send_offsets_;    ///< [from, to]
  std::vector<std::int64_t> receive_offsets_; ///< [to, from]
};

/// What one rank brings and gets: operand_shapes(), with as many rows of A, C and the residual as its counts add up to
/// where it has any.
[[nodiscard]] OperandShapes rank_shapes(const planner::OpSpec& op, const RankBuffers& buffers) noexcept;

/// Whether the counts of the ranks that this process holds are legal each for itself. Errors: InvalidSpec naming rank
/// and value: counts of another kind, not one per rank, sent without received, outside 0 .. m / ranks, or all zero.
[[nodiscard]] Result<void> check_splits(const planner::OpSpec& op, std::span<const int> ranks,
                                        std::span<const RankBuffers> buffers);

/// Whether every rank receives what the others say that they send, for a process that holds all ranks; check_splits()
/// has passed. Errors: InvalidSpec naming both ranks and values, or the rank without counts.
[[nodiscard]] Result<void> check_splits_agree(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

/// For backends without unequal splits. Errors: Unsupported when any rank has counts.
[[nodiscard]] Result<void> check_equal_splits(std::span<const RankBuffers> buffers);

} // namespace mc2::executor
