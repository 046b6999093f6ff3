#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// Rows that every rank sends every other and itself, [from, to] row-major, those of all experts of a rank together:
/// what the router of a mixture of experts decides. Empty: m / ranks between any two.
using RowCounts = std::vector<std::int64_t>;

/// Of more ranks the counts would be more than a plan should hold.
inline constexpr int kMaxCountedRanks = 256;

/// The kinds that take counts, as messages name them.
[[nodiscard]] std::string counted_kinds();

/// Errors: InvalidSpec (counts) for a kind that takes none, more than kMaxCountedRanks ranks, other than one count for
/// every two ranks, and a count outside 0 to m / ranks, naming both ranks; no row at all.
[[nodiscard]] Result<void> validate_counts(const OpSpec& op, std::span<const std::int64_t> counts);

/// Tables that a plan is made over at most, and their numbers in all: planning takes time for each.
inline constexpr std::size_t kMaxCountTables = 256, kMaxTabledCounts = std::size_t{1} << 18U;

/// How many whole tables, [from, to] each, the counts hold one behind the other.
[[nodiscard]] std::size_t table_count(const OpSpec& op, std::span<const std::int64_t> counts) noexcept;

/// Errors: as validate_counts, of the table that is wrong; more than kMaxCountTables or, of several tables,
/// kMaxTabledCounts.
[[nodiscard]] Result<void> validate_count_tables(const OpSpec& op, std::span<const std::int64_t> counts);

/// How many times the mean of all ranks the busiest one multiplies; 1 without counts. The counts are legal.
[[nodiscard]] double imbalance_of(const OpSpec& op, std::span<const std::int64_t> counts) noexcept;

/// An operator and what its ranks send each other.
struct RoutedOp {
  OpSpec op; ///< whose m has room for the largest count
  RowCounts counts;
};

/// A routing in which one rank's experts get `imbalance` times as many rows as the mean, the other ranks' share the
/// rest equally, and every rank has as many rows for experts as the others.
/// @param balanced   m: the rows of a rank if all got as many
/// @param imbalance  1 to the number of ranks, at which one rank gets all rows
/// Errors: as OpSpec::validate; InvalidSpec (imbalance) outside its range, for a kind that takes no counts, and for
/// more than kMaxCountedRanks ranks.
[[nodiscard]] Result<RoutedOp> with_imbalance(const OpSpec& balanced, double imbalance);

} // namespace mc2::planner

#pragma GCC visibility pop
