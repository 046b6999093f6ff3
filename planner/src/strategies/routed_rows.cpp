#include "strategies/routed_rows.hpp"

#include <algorithm>
#include <functional>

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

double RoutedRows::Pairs::most_rows(std::int64_t first, std::int64_t length) const noexcept {
  if (counts_.empty()) return 0;
  return static_cast<double>(std::clamp<std::int64_t>(counts_.back() - first, 0, length));
}

RoutedRows::RoutedRows(const OpSpec& op, std::span<const std::int64_t> counts)
    : ranks_(static_cast<std::size_t>(op.world_size)),
      world_size_(op.world_size),
      communicates_first_(traits_of(op.kind).communicates_first()),
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
    if (from == to) {
      ranks_[from].own = counts[pair];
      continue;
    }
    ranks_[from].sent.add(counts[pair]);
    ranks_[to].received.add(counts[pair]);
  }
  for (Rank& rank : ranks_)
    for (Pairs* pairs : {&rank.multiplied, &rank.received, &rank.sent}) pairs->sort();
  std::ranges::sort(ranks_, std::less{}); // a total order, because no count is NaN
  ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
}

double RoutedRows::compute_rows(int rank, std::int64_t first, std::int64_t length) const noexcept {
  return ranks_[static_cast<std::size_t>(rank)].multiplied.rows(first, length) / compute_shards_;
}

double RoutedRows::local_rows(int rank) const noexcept { return ranks_[static_cast<std::size_t>(rank)].local; }

double RoutedRows::most_sent_rows(std::int64_t first, std::int64_t length) const noexcept {
  double most = 0;
  for (const Rank& each : ranks_) most = std::max(most, each.sent.rows(first, length));
  return most / exchange_shards_;
}

double RoutedRows::pieces_of(const Pairs& peers, std::int64_t own, std::int64_t first, std::int64_t length) {
  const auto own_rows = static_cast<double>(std::clamp<std::int64_t>(own - first, 0, length));
  const double most = std::max(own_rows, peers.most_rows(first, length));
  return most == 0 ? 1 : (own_rows + peers.rows(first, length)) / most;
}

int RoutedRows::piece_count(int rank, std::int64_t first, std::int64_t length, int slice_count) const noexcept {
  const bool has_own = slice_count == world_size_;
  if (!has_own && slice_count != world_size_ - 1) return slice_count;
  const auto pieces = [&](const Rank& each, const Pairs& peers) {
    return static_cast<int>(pieces_of(peers, has_own ? each.own : 0, first, length));
  };
  if (communicates_first_) {
    const Rank& receiver = ranks_[static_cast<std::size_t>(rank)];
    return pieces(receiver, receiver.received);
  }
  double most_sent = 0;
  for (const Rank& sender : ranks_) most_sent = std::max(most_sent, sender.sent.rows(first, length));
  int fewest = slice_count;
  for (const Rank& sender : ranks_)
    if (sender.sent.rows(first, length) == most_sent) fewest = std::min(fewest, pieces(sender, sender.sent));
  return fewest;
}

double RoutedRows::exchange_rows(int rank, std::int64_t first, std::int64_t length, double most_sent) const noexcept {
  const double received = ranks_[static_cast<std::size_t>(rank)].received.rows(first, length) / exchange_shards_;
  return received == 0 ? 0 : std::max(received, most_sent);
}

} // namespace mc2::planner::strategies
