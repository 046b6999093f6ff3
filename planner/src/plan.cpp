#include "mc2/planner/plan.hpp"

#include <algorithm>
#include <array>

#include "names.hpp"

namespace mc2::planner {
namespace {

constexpr std::array kOrderNames{
    Name<BlockOrder>{BlockOrder::Uncut, "uncut"}, Name<BlockOrder>{BlockOrder::Uniform, "uniform"},
    Name<BlockOrder>{BlockOrder::ShortFirst, "short_first"}, Name<BlockOrder>{BlockOrder::ShortLast, "short_last"},
    Name<BlockOrder>{BlockOrder::Free, "free"}};
constexpr std::array kBoundNames{Name<Bound>{Bound::Compute, "compute"},
                                 Name<Bound>{Bound::Communication, "communication"}};

bool all_equal(std::span<const std::int64_t> rows) {
  return std::adjacent_find(rows.begin(), rows.end(), std::not_equal_to<>()) == rows.end();
}

std::string repeated_text(std::size_t count, std::int64_t rows) {
  return (count == 1 ? "" : std::to_string(count) + " x ") + std::to_string(rows);
}

std::string list_text(const std::vector<std::int64_t>& rows) {
  std::string result;
  for (const auto length : rows) result += (result.empty() ? "" : " + ") + std::to_string(length);
  return result;
}

} // namespace

std::string_view to_string(BlockOrder order) noexcept { return name_of<BlockOrder>(kOrderNames, order); }
Result<BlockOrder> parse_block_order(std::string_view text) {
  return parse_name<BlockOrder>(kOrderNames, text, "order");
}
std::string_view to_string(Bound bound) noexcept { return name_of<Bound>(kBoundNames, bound); }
Result<Bound> parse_bound(std::string_view text) { return parse_name<Bound>(kBoundNames, text, "bound"); }

bool overlaps(const OpSpec& op, const Variant& variant, const Cut& cut) {
  return cut.block_rows.size() > 1 || traits_of(op.kind).has_local_part || slice_count(variant) > 1;
}

BlockOrder Cut::order() const noexcept {
  const std::span<const std::int64_t> rows(block_rows);
  if (rows.size() <= 1) return BlockOrder::Uncut;
  if (all_equal(rows)) return BlockOrder::Uniform;
  // Two unequal blocks read either way; the position of the shorter one names the order.
  if (rows.size() == 2) return rows[0] < rows[1] ? BlockOrder::ShortFirst : BlockOrder::ShortLast;
  if (all_equal(rows.subspan(1))) return BlockOrder::ShortFirst;
  if (all_equal(rows.first(rows.size() - 1))) return BlockOrder::ShortLast;
  return BlockOrder::Free;
}

std::string Cut::text() const {
  const std::size_t count = block_rows.size();
  switch (order()) {
    case BlockOrder::Uncut: return "uncut";
    case BlockOrder::Uniform: return repeated_text(count, block_rows[0]);
    case BlockOrder::ShortFirst:
      return std::to_string(block_rows[0]) + " + " + repeated_text(count - 1, block_rows[1]);
    case BlockOrder::ShortLast:
      return repeated_text(count - 1, block_rows[0]) + " + " + std::to_string(block_rows.back());
    case BlockOrder::Free: break;
  }
  return list_text(block_rows);
}

} // namespace mc2::planner
