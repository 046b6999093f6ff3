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

/// The rows that one expert multiplies for one rank, which may be the expert's own. They are contiguous on both ranks.
struct ExpertRows {
  int expert = 0;
  std::int64_t first = 0; ///< index of the first row among all rows that the two ranks exchange
  std::int64_t count = 0;
  std::int64_t row = 0; ///< where they start on the rank that multiplies: in C or, where products travel, in A
};

/// How many rows each rank has for each other, and where the rows lie. On the sender rows are ordered by receiver, on
/// the receiver by sender; within that by the experts of the rank that multiplies. On the rank that multiplies, if it
/// has several experts, A (where products travel) or C is ordered by expert, and within an expert by rank. Where all
/// ranks get the same rows, to be gathered or summed, they start at the sender's first row. A value; safe to share.
class RowSplits {
 public:
  /// Equal splits: m / ranks rows between any two ranks; all m rows where rows are not divided.
  explicit RowSplits(const planner::OpSpec& op);
  /// The splits by the buffers of all ranks; equal splits if they have no counts. check_splits() must have passed.
  RowSplits(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

  [[nodiscard]] std::int64_t count(int from, int to) const noexcept { return at(counts_, from, to); }
  [[nodiscard]] std::int64_t send_offset(int from, int to) const noexcept { return at(send_offsets_, from, to); }
  [[nodiscard]] std::int64_t receive_offset(int to, int from) const noexcept { return at(receive_offsets_, to, from); }
  /// The rows that `holder` multiplies for `peer`, one entry for each of holder's experts, in the order in which the
  /// two ranks exchange them.
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
  int expert_count_; ///< experts of a rank
  bool all_get_the_same_;
  std::vector<std::int64_t> counts_;          ///< [from, to]
  std::vector<std::int64_t> send_offsets_;    ///< [from, to]
  std::vector<std::int64_t> receive_offsets_; ///< [to, from]
  std::vector<ExpertRows> expert_rows_;       ///< [rank that multiplies, peer, expert]
};

/// The length of a rank's send_counts and receive_counts: the number of experts of all ranks.
[[nodiscard]] std::size_t count_count(const planner::OpSpec& op) noexcept;

/// As received_counts(), without checks: every rank must have count_count() send_counts.
[[nodiscard]] std::vector<std::int64_t> transposed_counts(const planner::OpSpec& op,
                                                          std::span<const RankBuffers> ranks);

/// Checks each rank's counts alone, for the ranks that this process holds. Errors: InvalidSpec naming rank and value,
/// for counts in a kind that takes none, a wrong number of counts, send_counts without receive_counts, a count below 0,
/// or more than m / ranks rows with one rank.
[[nodiscard]] Result<void> check_splits(const planner::OpSpec& op, std::span<const int> ranks,
                                        std::span<const RankBuffers> buffers);

/// Checks that every rank's receive_counts match the others' send_counts, in a process that holds all ranks.
/// check_splits() must have passed. Errors: InvalidSpec naming both ranks and values, or the rank without counts.
[[nodiscard]] Result<void> check_splits_agree(const planner::OpSpec& op, std::span<const RankBuffers> buffers);

/// The numbers that a rank tells the others: its send_counts, then its receive_counts; -1 for each if it has none.
[[nodiscard]] std::vector<std::int64_t> counts_of(const planner::OpSpec& op, const RankBuffers& own);
/// The splits of all ranks, for processes that hold only some; unset if no rank has counts.
/// Errors: as check_splits_agree. @param told  counts_of() all ranks, by rank
[[nodiscard]] Result<std::optional<RowSplits>> agreed_splits(const planner::OpSpec& op,
                                                             std::span<const std::int64_t> told);

} // namespace mc2::executor
