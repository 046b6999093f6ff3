#include "options/counts_file.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "mc2/planner/routing.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/text.hpp"

namespace mc2::cli {
namespace {

constexpr std::size_t kMostNumbers = 1'000'000; ///< most numbers of a line

Error line_error(const std::filesystem::path& path, int line, const std::string& message) {
  return {ErrorCode::Malformed, path.string() + ":" + std::to_string(line), message};
}

/// Errors: Malformed.
Result<std::vector<std::int64_t>> read_line(const std::filesystem::path& path, int line, std::string_view text) {
  std::vector<std::int64_t> counts;
  for (bool has_more = true; has_more;) {
    has_more = text.find(',') != std::string_view::npos;
    const std::string_view cell = take_part(text, ',');
    const auto count = number_in<std::int64_t>(cell);
    if (!count || *count < 0 || *count > planner::kMaxSize)
      return line_error(path, line,
                        "'" + std::string(cell.substr(0, 32)) + "' is no number of rows; legal: 0 to " +
                            std::to_string(planner::kMaxSize));
    counts.push_back(*count);
    if (counts.size() > kMostNumbers)
      return line_error(path, line, "has more than " + std::to_string(kMostNumbers) + " numbers, one per expert");
  }
  return counts;
}

} // namespace

planner::RowCounts ExchangeCounts::by_rank() const {
  planner::RowCounts counts;
  for (auto pair = rows.begin(); pair != rows.end(); pair += experts_per_rank)
    counts.push_back(std::reduce(pair, pair + experts_per_rank, std::int64_t{0}));
  return counts;
}
std::int64_t ExchangeCounts::largest() const { return std::ranges::max(by_rank()); }
std::int64_t ExchangeCounts::total() const noexcept { return std::reduce(rows.begin(), rows.end(), std::int64_t{0}); }
std::int64_t ExchangeCounts::least_m() const {
  return ranks * planner::ceil_div(largest(), experts_per_rank) * experts_per_rank;
}

Result<void> ExchangeCounts::complete(OpOptions& op) const {
  const auto misfit = [](const char* option, const std::string& message) {
    return Error{ErrorCode::InvalidSpec, option, message};
  };
  if (const auto kind = planner::parse_op_kind(op.kind); kind && !planner::traits_of(kind.value()).takes_counts)
    return misfit("--counts", "are for " + planner::counted_kinds() + ", not " + op.kind);
  if (ranks != op.ranks)
    return misfit("--counts", "are of " + std::to_string(ranks) + " ranks; --ranks says " + std::to_string(op.ranks));
  if (op.m && *op.m < least_m())
    return misfit("--m", "is " + std::to_string(*op.m) + "; a rank of --counts sends " + std::to_string(largest()) +
                             " rows to one of " + std::to_string(ranks) + ", so it must be at least " +
                             std::to_string(least_m()));
  if (op.experts_per_rank.value_or(experts_per_rank) != experts_per_rank)
    return misfit("--counts", "are of " + std::to_string(experts_per_rank) +
                                  " experts on a rank; --experts-per-rank says " +
                                  std::to_string(*op.experts_per_rank));
  op.m = op.m.value_or(least_m());
  if (experts_per_rank > 1) op.experts_per_rank = experts_per_rank;
  return {};
}

Result<ExchangeCounts> counts_of(const planner::Plan& plan) {
  ExchangeCounts counts{plan.op.world_size, plan.op.experts_per_rank, {}};
  if (plan.counts.empty()) return counts;
  if (counts.experts_per_rank > 1)
    return Error{
        ErrorCode::InvalidSpec, "--counts",
        "are missing; the plan was made for certain counts of rows, and does not say how many of them each of " +
            std::to_string(counts.experts_per_rank) + " experts of a rank has; pass them as mc2 run --counts FILE"};
  counts.rows = plan.counts;
  return counts;
}

Result<ExchangeCounts> read_counts(const std::filesystem::path& path) {
  MC2_ASSIGN(const auto content, read_file(path));
  ExchangeCounts counts;
  std::string_view rest = store::without_byte_order_mark(content);
  std::size_t length = 0;
  int line = 0;
  while (!rest.empty()) {
    ++line;
    const std::string_view text = take_part(rest, '\n');
    if (text.empty() || text.front() == '#') continue;
    MC2_ASSIGN(const auto row, read_line(path, line, text));
    if (counts.ranks++ == 0) length = row.size();
    if (row.size() != length)
      return line_error(path, line,
                        "has " + std::to_string(row.size()) + " numbers and the first line " + std::to_string(length) +
                            "; every line needs one for each expert of all ranks");
    counts.rows.insert(counts.rows.end(), row.begin(), row.end());
  }
  if (counts.ranks < 2 || length % static_cast<std::size_t>(counts.ranks) != 0)
    return line_error(path, line,
                      "the file ends after " + std::to_string(counts.ranks) + " lines of " + std::to_string(length) +
                          " numbers; R ranks need R lines of R numbers, or of R times E where each has E experts, R at "
                          "least 2");
  counts.experts_per_rank = static_cast<std::int64_t>(length) / counts.ranks;
  if (counts.total() == 0) return Error{ErrorCode::Malformed, path.string(), "names no row at all"};
  if (counts.least_m() <= planner::kMaxSize) return counts;
  return Error{ErrorCode::Malformed, path.string(),
               "has counts that are too large: m would exceed " + std::to_string(planner::kMaxSize)};
}

} // namespace mc2::cli
