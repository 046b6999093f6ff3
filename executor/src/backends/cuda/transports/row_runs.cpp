#include "backends/cuda/transports/row_runs.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mc2::executor::cuda {
namespace {

/// The part of a pair's rows of one expert that lies in a block: its first row among the pair's rows, and its length.
struct PairPart {
  std::int64_t first = 0, count = 0;
};

PairPart part_of(const ExpertRows& rows, const Stage& block) {
  const std::int64_t first = std::max(rows.first, block.first_row);
  const std::int64_t end = std::min(rows.first + rows.count, block.first_row + block.row_count);
  return {first, std::max<std::int64_t>(0, end - first)};
}

bool continues(const RowRun& last, const RowRun& next) {
  return last.from_row + last.row_count == next.from_row && last.to_row + last.row_count == next.to_row;
}

void add(std::vector<RowRun>& runs, const RowRun& next) {
  if (next.row_count == 0) return;
  if (!runs.empty() && continues(runs.back(), next))
    runs.back().row_count += next.row_count;
  else
    runs.push_back(next);
}

void add(std::vector<ExpertRun>& runs, const ExpertRun& next) {
  if (next.rows.row_count == 0) return;
  if (!runs.empty() && runs.back().expert == next.expert && continues(runs.back().rows, next.rows))
    runs.back().rows.row_count += next.rows.row_count;
  else
    runs.push_back(next);
}

} // namespace

RowRuns::RowRuns(const planner::OpSpec& op, RowSplits splits)
    : gathers_first_(planner::traits_of(op.kind).communicates_first()),
      equal_count_(op.m / op.world_size / op.experts_per_rank),
      splits_(std::move(splits)) {}

std::vector<RowRun> RowRuns::exchanged(int from, int to, const Stage& block) const {
  const int holder = gathers_first_ ? to : from, peer = gathers_first_ ? from : to;
  const std::int64_t pair_row = gathers_first_ ? splits_.send_offset(from, to) : splits_.receive_offset(to, from);
  std::vector<RowRun> runs;
  for (const ExpertRows& rows : splits_.rows_by_expert(holder, peer)) {
    const PairPart part = part_of(rows, block);
    RowRun run{pair_row + part.first, rows.row + part.first - rows.first, part.count};
    if (!gathers_first_) std::swap(run.from_row, run.to_row);
    add(runs, run);
  }
  return runs;
}

std::vector<RowCopy> RowRuns::pulled(int rank, const Stage& block) const {
  std::vector<RowCopy> copies;
  for (int distance = 1; distance < splits_.world_size(); ++distance) {
    const int peer = (rank + distance) % splits_.world_size();
    for (const RowRun& run : exchanged(peer, rank, block)) copies.push_back({peer, run});
  }
  return copies;
}

std::vector<ExpertRun> RowRuns::multiplied(int rank, const Stage& block, RankRange peers, Own own) const {
  std::vector<ExpertRun> runs;
  const std::size_t expert_count = splits_.rows_by_expert(rank, rank).size();
  for (std::size_t expert = 0; expert < expert_count; ++expert) {
    for (int peer = peers.first; peer < peers.last; ++peer) {
      if (peer == rank && own == Own::Left) continue;
      const ExpertRows& rows = splits_.rows_by_expert(rank, peer)[expert];
      const PairPart part = part_of(rows, block);
      const std::int64_t row = rows.row + part.first - rows.first;
      add(runs, {.expert = rows.expert, .rows = {row, row, part.count}});
    }
  }
  return runs;
}

std::vector<ExpertRun> RowRuns::local(int rank) const {
  std::vector<ExpertRun> runs;
  for (const ExpertRows& rows : splits_.rows_by_expert(rank, rank))
    add(runs, {.expert = rows.expert, .rows = {splits_.send_offset(rank, rank) + rows.first, rows.row, rows.count}});
  return runs;
}

bool RowRuns::are_counts_of(int rank, const RankBuffers& buffers) const {
  const bool is_given = !buffers.send_counts.empty();
  const auto is_side = [&](std::span<const std::int64_t> counts, bool is_of_holder) {
    std::vector<std::int64_t> own;
    for (int peer = 0; peer < splits_.world_size(); ++peer) {
      const auto rows = is_of_holder ? splits_.rows_by_expert(rank, peer) : splits_.rows_by_expert(peer, rank);
      std::ranges::transform(rows, std::back_inserter(own), &ExpertRows::count);
    }
    const bool are_equal = std::ranges::all_of(own, [&](std::int64_t count) { return count == equal_count_; });
    return is_given ? std::ranges::equal(counts, own) : are_equal;
  };
  return is_side(buffers.send_counts, !gathers_first_) && is_side(buffers.receive_counts, gathers_first_);
}

bool has_row_runs(const planner::OpSpec& op, std::span<const RankBuffers> buffers) noexcept {
  const auto has_counts = [](const RankBuffers& rank) {
    return !rank.send_counts.empty() || !rank.device_send_counts.empty();
  };
  return op.experts_per_rank > 1 || std::ranges::any_of(buffers, has_counts);
}

} // namespace mc2::executor::cuda
