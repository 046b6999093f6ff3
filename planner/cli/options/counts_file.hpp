#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "context.hpp"
#include "mc2/planner/routing.hpp"

namespace mc2::cli {

/// The rows that every rank sends to every rank, as in RankBuffers::send_counts.
struct ExchangeCounts {
  int ranks = 0;
  std::int64_t experts_per_rank = 1;
  std::vector<std::int64_t> rows; ///< [from, to, expert of the rank that multiplies], row-major

  /// The most rows from one rank to another, over all its experts.
  [[nodiscard]] std::int64_t largest() const;
  [[nodiscard]] std::int64_t total() const noexcept;
  /// The least m of an operator that exchanges these rows.
  [[nodiscard]] std::int64_t least_m() const;
  /// The rows that a plan is made for: summed over the experts of a rank.
  [[nodiscard]] planner::RowCounts by_rank() const;
  /// Sets an operator's m and experts to what the counts need, unless they are given. Errors: InvalidSpec for a kind
  /// without counts, other ranks or experts, or a too small m.
  [[nodiscard]] Result<void> complete(OpOptions& op) const;
};

inline constexpr const char* kCountsHelp =
    "rows that the ranks exchange, as a CSV file (all-to-all kinds): line r has what rank r sends to each rank, or to "
    "each expert";

/// Reads a file with one line for each rank. A line has whole numbers, separated by commas: one for each expert of all
/// ranks. Empty lines and lines that begin with '#' are skipped. Errors: as read_file; Malformed with "file:line" for a
/// cell that is no number from 0 to planner::kMaxSize, a line of another length than the first, or a length that is no
/// multiple of the number of lines; Malformed with the file for counts that need a too large m, or that name no row.
[[nodiscard]] Result<ExchangeCounts> read_counts(const std::filesystem::path& path);

/// The counts that a plan was made for; no rows for a plan without counts. Errors: InvalidSpec where ranks have several
/// experts, as a plan does not hold the rows of each expert.
[[nodiscard]] Result<ExchangeCounts> counts_of(const planner::Plan& plan);

} // namespace mc2::cli
