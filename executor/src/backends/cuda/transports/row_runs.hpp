#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cuda/kernels/direct.hpp"
#include "backends/cuda/tiles/grouped_matmul.hpp"
#include "backends/cuda/transports/rank_range.hpp"
#include "row_splits.hpp"
#include "stage.hpp"

namespace mc2::executor::cuda {

/// Which rows go where, for an operator with counts or with several experts per rank. The exchange memory has the rows
/// in the order of the rank that multiplies them: by expert, and an expert's rows by rank. So a block's rows of an
/// expert are mostly contiguous on both sides of the matmul; scattered rows are copied row by row anyway. A value; safe
/// to share.
class RowRuns {
 public:
  RowRuns(const planner::OpSpec& op, RowSplits splits);

  /// The rows that `to` gets from `from` in a block: from A or the exchange memory, to the exchange memory or C.
  [[nodiscard]] std::vector<RowRun> exchanged(int from, int to, const Stage& block) const;
  /// The rows that `rank` gets from all other ranks, the next rank first, for its kernel.
  [[nodiscard]] std::vector<RowCopy> pulled(int rank, const Stage& block) const;
  enum class Own : std::uint8_t { Left, Taken };
  /// The rows that `rank` multiplies in a block for `peers`, with or without its own rows.
  [[nodiscard]] std::vector<ExpertRun> multiplied(int rank, const Stage& block, RankRange peers, Own own) const;
  /// The rows that `rank` multiplies of its own A, in a kind with a local part.
  [[nodiscard]] std::vector<ExpertRun> local(int rank) const;
  /// Whether a rank's counts are those of *this. With equal splits the rank may have no counts.
  [[nodiscard]] bool are_counts_of(int rank, const RankBuffers& buffers) const;
  [[nodiscard]] const RowSplits& splits() const noexcept { return splits_; }

 private:
  bool gathers_first_;
  std::int64_t equal_count_; ///< rows of an expert if nobody has counts
  RowSplits splits_;
};

/// Whether the operator needs RowRuns: it has counts or several experts per rank, so pieces need not be dense or of one
/// size.
[[nodiscard]] bool has_row_runs(const planner::OpSpec& op, std::span<const RankBuffers> buffers) noexcept;

} // namespace mc2::executor::cuda
