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

/// Which rows of an operator with counts or several experts a rank go where. The exchange memory has them as who
/// multiplies has its A, or its C: by expert, and an expert's rows by rank. So a block's rows of an expert mostly touch
/// on both sides of the matmul, and what is scattered is copied row by row anyway. A value; safe to share.
class RowRuns {
 public:
  RowRuns(const planner::OpSpec& op, RowSplits splits);

  /// What `to` gets of `from` in a block: of A or the exchange memory, to the exchange memory or C.
  [[nodiscard]] std::vector<RowRun> exchanged(int from, int to, const Stage& block) const;
  /// What `rank` gets of all others, the next first, for its kernel.
  [[nodiscard]] std::vector<RowCopy> pulled(int rank, const Stage& block) const;
  enum class Own : std::uint8_t { Left, Taken };
  /// What `rank` multiplies of a block for some ranks: with or without its own rows.
  [[nodiscard]] std::vector<ExpertRun> multiplied(int rank, const Stage& block, RankRange peers, Own own) const;
  /// What `rank` multiplies of its own A, for a kind with a local part.
  [[nodiscard]] std::vector<ExpertRun> local(int rank) const;
  /// Whether a rank's counts are those that all of this follows from; with equal splits it may have none.
  [[nodiscard]] bool are_counts_of(int rank, const RankBuffers& buffers) const;
  [[nodiscard]] const RowSplits& splits() const noexcept { return splits_; }

 private:
  bool gathers_first_;
  std::int64_t equal_count_; ///< of an expert, where nobody has counts
  RowSplits splits_;
};

/// Whether an operator's rows are scattered so: rather than dense pieces of equal size.
[[nodiscard]] bool has_row_runs(const planner::OpSpec& op, std::span<const RankBuffers> buffers) noexcept;

} // namespace mc2::executor::cuda
