#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "context.hpp"

namespace mc2::cli {

/// Rows that every rank sends every other.
struct ExchangeCounts {
  int ranks = 0;
  std::vector<std::int64_t> rows; ///< [from, to], row-major

  [[nodiscard]] std::int64_t largest() const noexcept;
  [[nodiscard]] std::int64_t total() const noexcept;
  [[nodiscard]] std::int64_t received_by(int rank) const noexcept;
};

/// Reads as many lines of as many whole numbers, separated by commas, as there are ranks; empty lines and lines that
/// begin with '#' are skipped. Errors: InvalidSpec for a file that cannot be read; Malformed with "file:line" for what
/// is no number from 0 to planner::kMaxSize, for lines of another length than the first, other than as many lines as
/// numbers in one, and a rank that sends or receives no row at all.
[[nodiscard]] Result<ExchangeCounts> read_counts(const std::filesystem::path& path);

} // namespace mc2::cli
