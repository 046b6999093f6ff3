#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

namespace mc2::executor {

/// Rows that one expert multiplies for one other rank, or its own: they lie one below the other on both sides.
struct ExpertRows {
  int expert = 0;
  std::int64_t first = 0; ///< among the rows of the two ranks
  std::int64_t count = 0;
  std::int64_t row = 0; ///< where they start on the side of who multiplies: in C, or in A where products travel
};

/// How many rows each rank has for each other, and where they lie: packed in the order of the ranks, by whom they go to
/// where they are sent from, by whom they come from where they arrive, and within a rank's in the order of its experts.
/// Where the rank has several experts, its own A, or C, is packed by expert, and an expert's rows by rank. Where every
/// rank is sent the same rows, to be gathered or summed, these start with the sender's first. A value; safe to share.
class RowSplits {
 public:
  /// m / ranks rows between any two; all m where rows are not divided.
  explicit RowSplits(const planner::OpSpec& op);
  /// What the buffers of all ranks say; equal where they say nothing. check_splits() has passed.
  RowSplits(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

  [[nodiscard]] std::int64_t count(int from, int to) const noexcept { return at(counts_, from, to); }
  [[nodiscard]] std::int64_t send_offset(int from, int to) const noexcept { return at(send_offsets_, from, to); }
  [[nodiscard]] std::int64_t receive_offset(int to, int from) const noexcept { return at(receive_offsets_, to, from); }
  /// The rows that `holder` multiplies for `peer`, those of each of its experts, in the order in which the two ranks
  /// exchange them.
  [[nodiscard]] std::span<const ExpertRows> rows_by_expert(int holder, int peer) const noexcept {
    return std::span(expert_rows_)
        .subspan(static_cast<std::size_t>((holder * world_size_ + peer) * expert_count_),
                 static_cast<std::size_t>(expert_count_));
  }
  [[nodiscard]] std::int64_t sent_rows(int from) const noexcept;
  [[nodiscard]] std::int64_t received_rows(int to) const noexcept;
  [[nodiscard]] int world_size() const noexcept { return world_size_; }

 private:
  [[nodiscard]] std::int64_t at(const std::vector<std::int64_t>& matrix, int row, int column) const noexcept {
    return matrix[static_cast<std::size_t>(row * world_size_ + column)];
  }
  void add_offsets();
  void add_expert_rows(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

  int world_size_;
  int expert_count_; ///< of a rank
  bool all_get_the_same_;
  std::vector<std::int64_t> counts_;          ///< [from, to]
  std::vector<std::int64_t> send_offsets_;    ///< [from, to]
  std::vector<std::int64_t> receive_offsets_; ///< [to, from]
  std::vector<ExpertRows> expert_rows_;       ///< [who multiplies, peer, expert]
};

/// Rows between two ranks by expert of who multiplies, as many counts as a rank has: experts of all ranks.
[[nodiscard]] std::size_t count_count(const planner::OpSpec& op) noexcept;

/// received_counts() of as many as each rank needs, which nobody has checked.
[[nodiscard]] std::vector<std::int64_t> transposed_counts(const planner::OpSpec& op,
                                                          std::span<const RankBuffers> ranks);

/// Whether the counts of the ranks that this process holds are legal each for itself. Errors: InvalidSpec naming rank
/// and value: counts of another kind, not one per expert, sent without received, below 0, or more than m / ranks with
/// one rank.
[[nodiscard]] Result<void> check_splits(const planner::OpSpec& op, std::span<const int> ranks,
                                        std::span<const RankBuffers> buffers);

/// Whether every rank receives what the others say that they send, for a process that holds all ranks; check_splits()
/// has passed. Errors: InvalidSpec naming both ranks and values, or the rank without counts.
[[nodiscard]] Result<void> check_splits_agree(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

/// What a rank of a kind that takes counts tells the others: its counts, sent and received, or -1 for each.
[[nodiscard]] std::vector<std::int64_t> counts_of(const planner::OpSpec& op, const RankBuffers& own);
/// The rows between all ranks, for processes that hold some; nothing where no rank has counts.
/// Errors: as check_splits_agree. @param told counts_of() all ranks, by rank
[[nodiscard]] Result<std::optional<RowSplits>> agreed_splits(const planner::OpSpec& op,
                                                             std::span<const std::int64_t> told);

} // namespace mc2::executor
