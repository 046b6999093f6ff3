#include "options/counts_file.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "pages/text.hpp"

namespace mc2::cli {
namespace {

/// The part up to `separator`, which is taken off the text together with it.
std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return trimmed(part);
}

Error line_error(const std::filesystem::path& path, int line, const std::string& message) {
  return {ErrorCode::Malformed, path.string() + ":" + std::to_string(line), message};
}

/// Errors: Malformed.
Result<std::vector<std::int64_t>> read_line(const std::filesystem::path& path, int line, std::string_view text) {
  std::vector<std::int64_t> counts;
  for (bool has_more = true; has_more;) {
    has_more = text.find(',') != std::string_view::npos;
    const std::string_view cell = next_part(text, ',');
    std::int64_t count = -1;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), count);
    if (error != std::errc() || end != cell.data() + cell.size() || count < 0 || count > planner::kMaxSize)
      return line_error(path, line,
                        "'" + std::string(cell.substr(0, 32)) + "' is no number of rows; legal: 0 to " +
                            std::to_string(planner::kMaxSize));
    counts.push_back(count);
    if (counts.size() > static_cast<std::size_t>(planner::kMaxWorldSize))
      return line_error(path, line,
                        "has more than " + std::to_string(planner::kMaxWorldSize) + " numbers, one per rank");
  }
  return counts;
}

} // namespace

std::int64_t ExchangeCounts::largest() const noexcept { return *std::ranges::max_element(rows); }
std::int64_t ExchangeCounts::received_by(int rank) const noexcept {
  std::int64_t sum = 0;
  for (auto at = static_cast<std::size_t>(rank); at < rows.size(); at += static_cast<std::size_t>(ranks))
    sum += rows[at];
  return sum;
}
std::int64_t ExchangeCounts::total() const noexcept { return std::reduce(rows.begin(), rows.end(), std::int64_t{0}); }

namespace {

/// Errors: Malformed for a row that cannot be the next one of these counts.
Result<void> check_row(const ExchangeCounts& counts, const std::vector<std::int64_t>& row, int rank,
                       const std::filesystem::path& path, int line) {
  const std::string ranks = std::to_string(counts.ranks);
  if (row.size() != static_cast<std::size_t>(counts.ranks))
    return line_error(path, line,
                      "has " + std::to_string(row.size()) + " numbers and the first line " + ranks +
                          "; every line needs one for each rank");
  if (rank >= counts.ranks)
    return line_error(path, line,
                      "is one line too many; " + ranks + " numbers a line mean " + ranks + " ranks, a line each");
  if (std::ranges::count(row, 0) == counts.ranks)
    return line_error(path, line,
                      "rank " + std::to_string(rank) + " sends no row at all; every rank needs at least one");
  return {};
}

} // namespace

Result<ExchangeCounts> read_counts(const std::filesystem::path& path) {
  MC2_ASSIGN(const auto content, read_file(path));
  ExchangeCounts counts;
  std::string_view rest = without_byte_order_mark(content);
  int line_count = 0, line = 0;
  while (!rest.empty()) {
    ++line;
    const std::string_view text = next_part(rest, '\n');
    if (text.empty() || text.front() == '#') continue;
    MC2_ASSIGN(auto row, read_line(path, line, text));
    if (line_count == 0) counts.ranks = static_cast<int>(row.size());
    MC2_TRY(check_row(counts, row, line_count++, path, line));
    counts.rows.insert(counts.rows.end(), row.begin(), row.end());
  }
  if (counts.ranks < 2 || line_count != counts.ranks)
    return line_error(path, line,
                      "the file ends after " + std::to_string(line_count) + " lines of " +
                          std::to_string(counts.ranks) + " numbers; R ranks need R lines of R numbers, R at least 2");
  for (int to = 0; to < counts.ranks; ++to)
    if (counts.received_by(to) == 0)
      return Error{ErrorCode::Malformed, path.string(),
                   "rank " + std::to_string(to) + " receives no row at all; every rank needs at least one"};
  return counts;
}

} // namespace mc2::cli
