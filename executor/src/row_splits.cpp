#include "row_splits.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "mc2/planner/routing.hpp"
#include "texts.hpp"

namespace mc2::executor {
namespace {

using Counts = std::span<const std::int64_t>;

std::int64_t sum(Counts counts) { return std::reduce(counts.begin(), counts.end(), std::int64_t{0}); }

Error count_error(int rank, const char* direction, const std::string& detail) {
  return {ErrorCode::InvalidSpec, "counts", rank_text(rank) + " " + direction + " " + detail};
}

/// "sends 5 rows to rank 2", "receives 5 rows from rank 2".
std::string direction_text(std::string_view direction, std::int64_t rows, std::size_t rank) {
  return std::to_string(rows) + " rows " + (direction == "sends" ? "to" : "from") + " " + rank_text(rank);
}

Result<void> check_kind(const planner::OpSpec& op, int rank) {
  if (planner::traits_of(op.kind).takes_counts) return {};
  return count_error(
      rank, "has",
      "counts; " + planner::counted_kinds() + " take them, not " + std::string(planner::to_string(op.kind)));
}

/// Checks the counts of one direction of one rank.
Result<void> check_direction(const planner::OpSpec& op, int rank, const char* direction, Counts counts) {
  const std::int64_t most = op.m / op.world_size;
  const std::string legal = "; legal: 0 to m / ranks = " + std::to_string(most);
  if (counts.size() != count_count(op))
    return count_error(rank, direction,
                       std::to_string(counts.size()) + " counts; one for each of the " +
                           std::to_string(count_count(op)) + (op.experts_per_rank > 1 ? " experts" : " ranks") +
                           " is needed, in both directions");
  const auto experts = static_cast<std::size_t>(op.experts_per_rank);
  for (std::size_t place = 0; place < counts.size(); ++place) {
    if (counts[place] >= 0 && counts[place] <= most) continue;
    return count_error(rank, direction,
                       direction_text(direction, counts[place], place / experts) +
                           (experts > 1 ? " of expert " + std::to_string(place % experts) : "") + legal);
  }
  for (std::size_t first = 0; first < counts.size(); first += experts) {
    const std::int64_t rows = sum(counts.subspan(first, experts));
    if (rows <= most) continue;
    return count_error(rank, direction, direction_text(direction, rows, first / experts) + " in all" + legal);
  }
  return {};
}

/// Checks counts in device memory: their presence, size and alignment. Only the device reads the numbers.
Result<void> check_on_device(const planner::OpSpec& op, int rank, const RankBuffers& buffers) {
  const std::span<const std::byte> counts = buffers.device_send_counts;
  const std::size_t needed = count_count(op) * sizeof(std::int64_t);
  if (!buffers.send_counts.empty() || !buffers.receive_counts.empty())
    return count_error(rank, "has", "counts in device memory and others beside them; needs the one or the other");
  if (counts.size() != needed)
    return count_error(rank, "has",
                       std::to_string(counts.size()) + " bytes of counts in device memory; needs " +
                           std::to_string(needed) + ", 8 for each expert");
  if (reinterpret_cast<std::uintptr_t>(counts.data()) % sizeof(std::int64_t) != 0)
    return count_error(rank, "has", "counts in device memory that are not aligned to their 8 bytes");
  return {};
}

} // namespace

std::size_t count_count(const planner::OpSpec& op) noexcept {
  return static_cast<std::size_t>(op.world_size) * static_cast<std::size_t>(op.experts_per_rank);
}

RowSplits::RowSplits(const planner::OpSpec& op)
    : world_size_(op.world_size),
      expert_count_(static_cast<int>(op.experts_per_rank)),
      all_get_the_same_(!planner::traits_of(op.kind).has_row_shards || planner::traits_of(op.kind).gathers_a),
      counts_(static_cast<std::size_t>(op.world_size) * static_cast<std::size_t>(op.world_size),
              planner::traits_of(op.kind).has_row_shards ? op.m / op.world_size : op.m) {
  add_offsets();
  add_expert_rows(op, {});
}

RowSplits::RowSplits(const planner::OpSpec& op, std::span<const RankBuffers> buffers) : RowSplits(op) {
  if (buffers.front().send_counts.empty()) return;
  auto pair = counts_.begin();
  const auto experts = static_cast<std::size_t>(expert_count_);
  for (const RankBuffers& rank : buffers) {
    for (std::size_t first = 0; first < rank.send_counts.size(); first += experts)
      *pair++ = sum(rank.send_counts.subspan(first, experts));
  }
  add_offsets();
  add_expert_rows(op, buffers);
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

/// @param buffers  of all ranks, with counts; empty: all experts have equally many rows
void RowSplits::add_expert_rows(const planner::OpSpec& op, std::span<const RankBuffers> buffers) {
  const bool is_received = planner::traits_of(op.kind).communicates_first();
  expert_rows_.resize(counts_.size() * static_cast<std::size_t>(expert_count_));
  const auto count_of = [&](int holder, int peer, int expert) {
    const int from = is_received ? peer : holder, to = is_received ? holder : peer;
    if (buffers.empty()) return count(from, to) / expert_count_;
    return buffers[static_cast<std::size_t>(from)]
        .send_counts[static_cast<std::size_t>(to) * static_cast<std::size_t>(expert_count_) +
                     static_cast<std::size_t>(expert)];
  };
  for (int holder = 0; holder < world_size_; ++holder) {
    std::int64_t row = 0;
    for (int expert = 0; expert < expert_count_; ++expert) {
      for (int peer = 0; peer < world_size_; ++peer) {
        const auto place = (static_cast<std::size_t>(holder) * static_cast<std::size_t>(world_size_) +
                            static_cast<std::size_t>(peer)) *
                               static_cast<std::size_t>(expert_count_) +
                           static_cast<std::size_t>(expert);
        ExpertRows& rows = expert_rows_[place];
        rows = {.expert = expert, .count = count_of(holder, peer, expert), .row = row};
        if (expert > 0) rows.first = expert_rows_[place - 1].first + expert_rows_[place - 1].count;
        if (!all_get_the_same_ || is_received) row += rows.count;
      }
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

std::vector<std::int64_t> transposed_counts(const planner::OpSpec& op, std::span<const RankBuffers> ranks) {
  const auto experts = static_cast<std::size_t>(op.experts_per_rank);
  std::vector<std::int64_t> received;
  received.reserve(ranks.size() * count_count(op));
  for (std::size_t to = 0; to < ranks.size(); ++to)
    for (const RankBuffers& from : ranks) {
      const Counts sent = from.send_counts.subspan(to * experts, experts);
      received.insert(received.end(), sent.begin(), sent.end());
    }
  return received;
}

Result<std::vector<std::int64_t>> received_counts(const planner::OpSpec& op, std::span<const RankBuffers> ranks) {
  MC2_CHECK(ranks.size() == static_cast<std::size_t>(op.world_size), "counts of another world");
  for (int rank = 0; rank < op.world_size; ++rank) {
    MC2_TRY(check_kind(op, rank));
    MC2_TRY(check_direction(op, rank, "sends", ranks[static_cast<std::size_t>(rank)].send_counts));
  }
  return transposed_counts(op, ranks);
}

Result<void> check_splits(const planner::OpSpec& op, std::span<const int> ranks, std::span<const RankBuffers> buffers) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const RankBuffers& rank = buffers[i];
    const std::span<const std::byte> on_device = rank.device_send_counts;
    if (rank.send_counts.empty() && rank.receive_counts.empty() && on_device.empty()) continue;
    MC2_TRY(check_kind(op, ranks[i]));
    if (!on_device.empty()) {
      MC2_TRY(check_on_device(op, ranks[i], rank));
      continue;
    }
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
  const auto experts = static_cast<std::size_t>(op.experts_per_rank);
  for (std::size_t from = 0; has_counts && from < buffers.size(); ++from) {
    for (std::size_t place = 0; place < count_count(op); ++place) {
      const std::size_t to = place / experts, expert = place % experts;
      const std::int64_t sent = buffers[from].send_counts[place];
      const std::int64_t expected = buffers[to].receive_counts[from * experts + expert];
      if (sent == expected) continue;
      return count_error(static_cast<int>(from), "sends",
                         rank_text(to) + " " + std::to_string(sent) + " rows" +
                             (experts > 1 ? " of expert " + std::to_string(expert) : "") + ", which expects " +
                             std::to_string(expected));
    }
  }
  return {};
}

std::vector<std::int64_t> counts_of(const planner::OpSpec& op, const RankBuffers& own) {
  const std::size_t count = count_count(op);
  std::vector<std::int64_t> numbers(2 * count, -1); // -1 stands for "none", because no count is negative
  std::ranges::copy(own.send_counts, numbers.begin());
  std::ranges::copy(own.receive_counts, numbers.begin() + static_cast<std::ptrdiff_t>(count));
  return numbers;
}

Result<std::optional<RowSplits>> agreed_splits(const planner::OpSpec& op, std::span<const std::int64_t> told) {
  const std::size_t count = count_count(op);
  std::vector<RankBuffers> ranks(static_cast<std::size_t>(op.world_size));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto counts = told.subspan(rank * 2 * count, 2 * count);
    if (counts.front() < 0) continue;
    ranks[rank].send_counts = counts.first(count);
    ranks[rank].receive_counts = counts.last(count);
  }
  MC2_TRY(check_splits_agree(op, ranks));
  if (ranks.front().send_counts.empty()) return std::optional<RowSplits>{};
  return std::optional(RowSplits(op, ranks));
}

} // namespace mc2::executor
