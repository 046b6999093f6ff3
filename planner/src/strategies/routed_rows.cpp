#include "strategies/routed_rows.hpp"

#include <algorithm>

namespace mc2::planner::strategies {

void RoutedRows::Pairs::sort() {
  std::ranges::sort(counts_);
  sums_ = {0};
  for (const std::int64_t count : counts_) sums_.push_back(sums_.back() + static_cast<double>(count));
}

double RoutedRows::Pairs::up_to(std::int64_t x) const noexcept {
  const auto whole = std::ranges::upper_bound(counts_, x) - counts_.begin();
  return sums_[static_cast<std::size_t>(whole)] +
         static_cast<double>(x) * static_cast<double>(static_cast<std::ptrdiff_t>(counts_.size()) - whole);
}

RoutedRows::RoutedRows(const OpSpec& op, std::span<const std::int64_t> counts)
    : ranks_(static_cast<std::size_t>(op.world_size)),
      compute_shards_(op.world_size - (traits_of(op.kind).has_local_part ? 1 : 0)),
      exchange_shards_(op.world_size - 1) {
  const OpTraits& traits = traits_of(op.kind);
  for (std::size_t pair = 0; pair < counts.size(); ++pair) {
    const std::size_t from = pair / ranks_.size(), to = pair % ranks_.size();
    Rank& holder = ranks_[traits.communicates_first() ? to : from];
    if (from == to && traits.has_local_part)
      holder.local = static_cast<double>(counts[pair]);
    else
      holder.multiplied.add(counts[pair]);
    if (from == to) continue;
    ranks_[from].sent.add(counts[pair]);
    ranks_[to].received.add(counts[pair]);
  }
  for (Rank& rank : ranks_)
    for (Pairs* pairs : {&rank.multiplied, &rank.received, &rank.sent}) pairs->sort();
}

double RoutedRows::compute_rows(int rank, std::int64_t first, std::int64_t length) const noexcept {
  return ranks_[static_cast<std::size_t>(rank)].multiplied.rows(first, length) / compute_shards_;
}

double RoutedRows::local_rows(int rank) const noexcept { return ranks_[static_cast<std::size_t>(rank)].local; }

double RoutedRows::exchange_rows(int rank, std::int64_t first, std::int64_t length) const noexcept {
  double most = ranks_[static_cast<std::size_t>(rank)].received.rows(first, length);
  if (most == 0) return 0;
  for (const Rank& each : ranks_) most = std::max(most, each.sent.rows(first, length));
  return most / exchange_shards_;
}

} // namespace mc2::planner::strategies
