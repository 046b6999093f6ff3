#include "mc2/planner/routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

Result<void> check_kind(const OpSpec& op, const char* field, const std::string& value) {
  if (op.world_size < 1 || op.world_size > kMaxCountedRanks)
    return Error{
        ErrorCode::InvalidSpec, field,
        value + " of " + std::to_string(op.world_size) + " ranks; legal: up to " + std::to_string(kMaxCountedRanks)};
  if (traits_of(op.kind).takes_counts) return {};
  return Error{ErrorCode::InvalidSpec, field,
               value + "; only " + counted_kinds() + " are routed, not " + std::string(to_string(op.kind))};
}

/// The one of two ranks that multiplies the rows sent from one to the other.
std::size_t holder_of(const OpSpec& op, std::size_t from, std::size_t to) {
  return traits_of(op.kind).communicates_first() ? to : from;
}

} // namespace

std::string counted_kinds() {
  return kinds_with([](const OpTraits& traits) { return traits.takes_counts; });
}

Result<void> validate_counts(const OpSpec& op, std::span<const std::int64_t> counts) {
  MC2_TRY(check_kind(op, "counts", "are given"));
  const auto ranks = static_cast<std::size_t>(op.world_size);
  if (counts.size() != ranks * ranks)
    return Error{ErrorCode::InvalidSpec, "counts",
                 "are " + std::to_string(counts.size()) + "; " + std::to_string(ranks) + " ranks have " +
                     std::to_string(ranks * ranks) + ", one from each to each"};
  const std::int64_t most = op.m / op.world_size;
  for (std::size_t pair = 0; pair < counts.size(); ++pair) {
    if (counts[pair] >= 0 && counts[pair] <= most) continue;
    return Error{ErrorCode::InvalidSpec, "counts",
                 "name " + std::to_string(counts[pair]) + " rows from rank " + std::to_string(pair / ranks) +
                     " to rank " + std::to_string(pair % ranks) + "; legal: 0 to m / ranks = " + std::to_string(most)};
  }
  if (std::ranges::any_of(counts, [](std::int64_t count) { return count > 0; })) return {};
  return Error{ErrorCode::InvalidSpec, "counts", "name no row at all"};
}

std::size_t table_count(const OpSpec& op, std::span<const std::int64_t> counts) noexcept {
  const auto ranks = static_cast<std::size_t>(std::max(op.world_size, 1));
  return counts.size() / (ranks * ranks);
}

Result<void> validate_count_tables(const OpSpec& op, std::span<const std::int64_t> counts) {
  MC2_TRY(check_kind(op, "counts", "are given"));
  const auto ranks = static_cast<std::size_t>(op.world_size);
  const std::size_t size = ranks * ranks, tables = counts.size() / size;
  if (counts.size() <= size) return validate_counts(op, counts);
  if (counts.size() % size != 0)
    return Error{ErrorCode::InvalidSpec, "counts",
                 "are " + std::to_string(counts.size()) + "; " + std::to_string(ranks) + " ranks have " +
                     std::to_string(size) + " in each table, one from each to each"};
  const std::size_t most = std::min(kMaxCountTables, kMaxTabledCounts / size);
  if (tables > most)
    return Error{ErrorCode::InvalidSpec, "counts",
                 "are " + std::to_string(tables) + " tables; legal for " + std::to_string(ranks) + " ranks: up to " +
                     std::to_string(most)};
  for (std::size_t table = 0; table < tables; ++table) {
    const auto legal = validate_counts(op, counts.subspan(table * size, size));
    if (!legal)
      return Error{legal.error().code, legal.error().field,
                   "table " + std::to_string(table + 1) + ": " + legal.error().message};
  }
  return {};
}

double imbalance_of(const OpSpec& op, std::span<const std::int64_t> counts) noexcept {
  if (counts.empty()) return 1;
  const auto ranks = static_cast<std::size_t>(op.world_size);
  std::vector<std::int64_t> multiplied(ranks);
  for (std::size_t pair = 0; pair < counts.size(); ++pair)
    multiplied[holder_of(op, pair / ranks, pair % ranks)] += counts[pair];
  const auto total = static_cast<double>(std::reduce(multiplied.begin(), multiplied.end(), std::int64_t{0}));
  return static_cast<double>(*std::ranges::max_element(multiplied)) * static_cast<double>(ranks) / total;
}

Result<RoutedOp> with_imbalance(const OpSpec& balanced, double imbalance) {
  MC2_TRY(balanced.validate());
  const std::string is = "is " + number_text(imbalance);
  MC2_TRY(check_kind(balanced, "imbalance", is));
  if (!(imbalance >= 1 && imbalance <= balanced.world_size))
    return Error{ErrorCode::InvalidSpec, "imbalance",
                 is + "; legal: 1 to " + std::to_string(balanced.world_size) + ", where one rank gets all rows"};
  const auto ranks = static_cast<std::size_t>(balanced.world_size);
  const std::int64_t even = balanced.m / balanced.world_size;
  const auto wanted = static_cast<std::int64_t>(std::llround(imbalance * static_cast<double>(even)));
  const std::int64_t most = std::min(balanced.m, wanted);
  RoutedOp routed{balanced, RowCounts(ranks * ranks)};
  for (std::size_t token_rank = 0; token_rank < ranks; ++token_rank) {
    std::int64_t left = balanced.m - most; // rows of token_rank for the experts of ranks > 0
    for (std::size_t holder = 0; holder < ranks; ++holder) {
      const std::int64_t count = holder == 0 ? most : left / static_cast<std::int64_t>(ranks - holder);
      if (holder > 0) left -= count;
      const bool is_sent = traits_of(balanced.kind).communicates_first();
      routed.counts[is_sent ? token_rank * ranks + holder : holder * ranks + token_rank] = count;
    }
  }
  const std::int64_t step = m_step(balanced);
  routed.op.m = align_up(most * balanced.world_size, step);
  MC2_TRY(routed.op.validate());
  return routed;
}

} // namespace mc2::planner
