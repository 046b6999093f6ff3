#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "context.hpp"
#include "mc2/planner/routing.hpp"

namespace mc2::cli {

/// Rows that every rank sends every other, as RankBuffers::send_counts has them.
struct ExchangeCounts {
  int ranks = 0;
  std::int64_t experts_per_rank = 1;
  std::vector<std::int64_t> rows; ///< [from, to, expert of who multiplies], row-major

  /// Rows from one rank to another, of all experts.
  [[nodiscard]] std::int64_t largest() const;
  [[nodiscard]] std::int64_t total() const noexcept;
  /// The least m of an operator that exchanges them.
  [[nodiscard]] std::int64_t least_m() const;
  /// As a plan is made for them: those of all experts of a rank together.
  [[nodiscard]] planner::RowCounts by_rank() const;
  /// An operator's m and experts, where they are not given, become what the counts need. Errors: InvalidSpec for those
  /// that cannot be theirs.
  [[nodiscard]] Result<void> complete(OpOptions& op) const;
};

inline constexpr const char* kCountsHelp =
    "rows that ranks exchange: a CSV file, line r for what rank r sends each rank, or each expert (all-to-all kinds)";

/// Reads as many lines as there are ranks, of as many whole numbers each, separated by commas, as there are experts;
/// empty lines and lines that begin with '#' are skipped. Errors: InvalidSpec for a file that cannot be read; Malformed
/// with "file:line" for what is no number from 0 to planner::kMaxSize, for lines of another length than the first, a
/// length that is no multiple of the number of lines, counts that m would be too large for, and no row at all.
[[nodiscard]] Result<ExchangeCounts> read_counts(const std::filesystem::path& path);

/// Those that a plan was made for; empty for one of full pairs. Errors: InvalidSpec where ranks have several experts,
/// for each of which it does not say them.
[[nodiscard]] Result<ExchangeCounts> counts_of(const planner::Plan& plan);

} // namespace mc2::cli
