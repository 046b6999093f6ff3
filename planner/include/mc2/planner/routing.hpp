#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// Rows that each rank sends to each rank, itself included, as the router of a mixture of experts decides:
/// [from, to] row-major, the rows for all experts of a rank together. Empty: m / ranks between any two ranks.
using RowCounts = std::vector<std::int64_t>;

/// Most ranks of an operator with counts. With more ranks the table would be larger than a plan should hold.
inline constexpr int kMaxCountedRanks = 256;

/// The kinds that take counts, as messages name them.
[[nodiscard]] std::string counted_kinds();

/// Errors: InvalidSpec (counts) for a kind that takes no counts, more than kMaxCountedRanks ranks, another size than
/// ranks * ranks, a count outside 0 to m / ranks (naming both ranks), or counts that are all 0.
[[nodiscard]] Result<void> validate_counts(const OpSpec& op, std::span<const std::int64_t> counts);

/// Most tables that one plan is made over, and most counts in several tables: planning takes time for each table.
inline constexpr std::size_t kMaxCountTables = 256, kMaxTabledCounts = std::size_t{1} << 18U;

/// Number of whole tables, each [from, to], that the counts hold one behind the other.
[[nodiscard]] std::size_t table_count(const OpSpec& op, std::span<const std::int64_t> counts) noexcept;

/// Checks counts that may be several tables. Errors: as validate_counts, naming the table; InvalidSpec (counts) for a
/// part of a table, more than kMaxCountTables tables or, in several tables, more than kMaxTabledCounts counts.
[[nodiscard]] Result<void> validate_count_tables(const OpSpec& op, std::span<const std::int64_t> counts);

/// Rows that the busiest rank multiplies over the mean of all ranks; 1 without counts. The counts must be legal.
[[nodiscard]] double imbalance_of(const OpSpec& op, std::span<const std::int64_t> counts) noexcept;

/// An operator and what its ranks send each other.
struct RoutedOp {
  OpSpec op; ///< its m is large enough for the largest count
  RowCounts counts;
};

/// A routing in which the experts of one rank get `imbalance` times the mean number of rows and those of the other
/// ranks share the rest equally. All ranks have equally many rows for the experts.
/// @param balanced   its m is the number of rows that each rank would get if all got equally many
/// @param imbalance  1 to the number of ranks, at which one rank gets all rows
/// Errors: as OpSpec::validate; InvalidSpec (imbalance) outside its range, for a kind that takes no counts, and for
/// more than kMaxCountedRanks ranks.
[[nodiscard]] Result<RoutedOp> with_imbalance(const OpSpec& balanced, double imbalance);

} // namespace mc2::planner

#pragma GCC visibility pop
