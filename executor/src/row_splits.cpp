#include "row_splits.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace mc2::executor {
namespace {

using Counts = std::span<const std::int64_t>;

std::int64_t sum(Counts counts) { return std::reduce(counts.begin(), counts.end(), std::int64_t{0}); }

Error count_error(int rank, const char* direction, const std::string& detail) {
  return {ErrorCode::InvalidSpec, "counts", "rank " + std::to_string(rank) + " " + direction + " " + detail};
}

/// One direction of one rank.
Result<void> check_direction(const planner::OpSpec& op, int rank, const char* direction, Counts counts) {
  const std::int64_t most = op.m / op.world_size;
  if (counts.size() != static_cast<std::size_t>(op.world_size))
    return count_error(rank, direction,
                       std::to_string(counts.size()) + " counts; one for each of the " + std::to_string(op.world_size) +
                           " ranks is needed, in both directions");
  for (std::size_t peer = 0; peer < counts.size(); ++peer) {
    if (counts[peer] >= 0 && counts[peer] <= most) continue;
    return count_error(rank, direction,
                       std::to_string(counts[peer]) + " rows with rank " + std::to_string(peer) +
                           "; legal: 0 to m / ranks = " + std::to_string(most));
  }
  if (sum(counts) > 0) return {};
  return count_error(rank, direction, "no row at all; every rank needs at least one");
}

} // namespace

RowSplits::RowSplits(const planner::OpSpec& op)
    : world_size_(op.world_size),
      all_get_the_same_(!planner::traits_of(op.kind).has_row_shards || planner::traits_of(op.kind).gathers_a),
      counts_(static_cast<std::size_t>(op.world_size) * static_cast<std::size_t>(op.world_size),
              planner::traits_of(op.kind).has_row_shards ? op.m / op.world_size : op.m) {
  add_offsets();
}

RowSplits::RowSplits(const planner::OpSpec& op, std::span<const RankBuffers> buffers) : RowSplits(op) {
  if (buffers.front().send_counts.empty()) return;
  auto row = counts_.begin();
  for (const RankBuffers& rank : buffers) row = std::ranges::copy(rank.send_counts, row).out;
  add_offsets();
}

void RowSplits::add_offsets() {
  send_offsets_.resize(counts_.size());
  receive_offsets_.resize(counts_.size());
  for (int rank = 0; rank < world_size_; ++rank) {
    std::int64_t sent = 0, received = 0;
    for (int peer = 0; peer < world_size_; ++peer) {
      const auto place = static_cast<std::size_t>(rank * world_size_ + peer);
      send_offsets_[place] = sent;
      receive_offsets_[place] = received;
      if (!all_get_the_same_) sent += count(rank, peer);
      received += count(peer, rank);
    }
  }
}

std::int64_t RowSplits::sent_rows(int from) const noexcept {
  return send_offset(from, world_size_ - 1) + count(from, world_size_ - 1);
}

std::int64_t RowSplits::received_rows(int to) const noexcept {
  return receive_offset(to, world_size_ - 1) + count(world_size_ - 1, to);
}

OperandShapes rank_shapes(const planner::OpSpec& op, const RankBuffers& buffers) noexcept {
  OperandShapes shapes = operand_shapes(op);
  if (buffers.send_counts.empty()) return shapes;
  shapes.a.rows = sum(buffers.send_counts);
  shapes.c.rows = sum(buffers.receive_counts);
  if (op.epilogue.has_residual) shapes.residual = shapes.c;
  return shapes;
}

Result<void> check_splits(const planner::OpSpec& op, std::span<const int> ranks, std::span<const RankBuffers> buffers) {
  const auto takes_counts = [](const planner::OpTraits& traits) { return traits.takes_counts; };
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const RankBuffers& rank = buffers[i];
    if (rank.send_counts.empty() && rank.receive_counts.empty()) continue;
    if (!takes_counts(planner::traits_of(op.kind)))
      return count_error(ranks[i], "has",
                         "counts; " + planner::kinds_with(takes_counts) + " take them, not " +
                             std::string(planner::to_string(op.kind)));
    MC2_TRY(check_direction(op, ranks[i], "sends", rank.send_counts));
    MC2_TRY(check_direction(op, ranks[i], "receives", rank.receive_counts));
  }
  return {};
}

Result<void> check_splits_agree(const planner::OpSpec& op, std::span<const RankBuffers> buffers) {
  const bool has_counts = !buffers.front().send_counts.empty();
  for (int rank = 0; rank < op.world_size; ++rank) {
    if (buffers[static_cast<std::size_t>(rank)].send_counts.empty() == has_counts)
      return count_error(rank, has_counts ? "has no" : "has", "counts, unlike rank 0");
  }
  for (int rank = 0; has_counts && rank < op.world_size; ++rank) {
    for (int peer = 0; peer < op.world_size; ++peer) {
      const auto from = static_cast<std::size_t>(rank), to = static_cast<std::size_t>(peer);
      if (buffers[from].send_counts[to] == buffers[to].receive_counts[from]) continue;
      return count_error(rank, "sends",
                         "rank " + std::to_string(peer) + " " + std::to_string(buffers[from].send_counts[to]) +
                             " rows, which expects " + std::to_string(buffers[to].receive_counts[from]));
    }
  }
  return {};
}

Result<void> check_equal_splits(std::span<const RankBuffers> buffers) {
  const bool are_equal = std::ranges::all_of(
      buffers, [](const RankBuffers& rank) { return rank.send_counts.empty() && rank.receive_counts.empty(); });
  if (are_equal) return {};
  return Error{
      ErrorCode::Unsupported, "counts",
      "this backend exchanges equal splits only; leave send_counts and receive_counts out, or use the host backend"};
}

} // namespace mc2::executor
