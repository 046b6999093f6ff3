#include "bags.hpp"

#include <string>

#include "parallel_for.hpp"
#include "texts.hpp"

namespace mc2::executor {
namespace {

Error bag_error(std::int64_t table, std::int64_t sample, const std::string& detail) {
  return {ErrorCode::InvalidSpec, "bags",
          "table " + std::to_string(table) + ", sample " + std::to_string(sample) + ": " + detail};
}

Result<void> check_rank(const planner::OpSpec& op, const BagReader& bags) {
  const auto is_bad = [&](std::int64_t bag) { return !bags.check(bag / op.m, bag % op.m); };
  const std::int64_t bag_count = op.tables->table_count * op.m;
  if (const auto bad = parallel_find_first(bag_count, is_bad)) return bags.check(*bad / op.m, *bad % op.m);
  // Every range ascends and lies within the indices; it remains to check the first and the last offset.
  const auto first = bags.range_of(0, 0), last = bags.range_of(op.tables->table_count - 1, op.m - 1);
  if (first.first != 0) return bag_error(0, 0, "the offsets start at " + std::to_string(first.first) + ", not at 0");
  if (last.end != bags.index_count())
    return bag_error(op.tables->table_count - 1, op.m - 1,
                     "the offsets end at " + std::to_string(last.end) + ", not at the number of indices, " +
                         std::to_string(bags.index_count()));
  return {};
}

} // namespace

BagReader::BagReader(const planner::OpSpec& op, const EmbeddingBags& bags) noexcept
    : bags_(bags),
      sample_count_(op.m),
      row_count_(op.tables->row_count),
      index_count_(static_cast<std::int64_t>(bags.indices.size()) / size_bytes(bags.type)) {}

Result<void> BagReader::check(std::int64_t table, std::int64_t sample) const {
  const Range range = range_of(table, sample);
  if (range.first < 0 || range.end < range.first || range.end > index_count_)
    return bag_error(table, sample,
                     "the offsets " + std::to_string(range.first) + " and " + std::to_string(range.end) +
                         " do not ascend within the " + std::to_string(index_count_) + " indices");
  for (std::int64_t place = range.first; place < range.end; ++place) {
    const std::int64_t row = row_at(place);
    if (row >= 0 && row < row_count_) continue;
    return bag_error(table, sample,
                     "names row " + std::to_string(row) + "; a table has rows 0 to " + std::to_string(row_count_ - 1));
  }
  return {};
}

Result<void> check_bags(const planner::OpSpec& op, std::span<const int> ranks, std::span<const RankBuffers> buffers) {
  if (!op.tables) return {};
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto legal = check_rank(op, BagReader(op, buffers[i].bags));
    if (legal) continue;
    return Error{legal.error().code, legal.error().field, rank_text(ranks[i]) + ", " + legal.error().message};
  }
  return {};
}

} // namespace mc2::executor
