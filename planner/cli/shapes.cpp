#include "shapes.hpp"

#include <charconv>

namespace mc2::cli {
namespace {

constexpr std::size_t kMaxShapeCount = 10'000;

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> cells;
  while (true) {
    const std::size_t comma = line.find(',');
    cells.push_back(trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

template <typename Integer>
Result<void> set_integer(const std::string& column, const std::string& cell, Integer& target) {
  const auto [end, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), target);
  if (failure == std::errc() && end == cell.data() + cell.size()) return {};
  return Error{ErrorCode::Malformed, column, "'" + cell.substr(0, 32) + "' is no whole number"};
}

Result<void> set_cell(const std::string& column, const std::string& cell, OpOptions& op) {
  if (column == "op") return op.kind = cell, Result<void>();
  if (column == "dtype") return op.dtype = cell, Result<void>();
  if (column == "m") return set_integer(column, cell, op.m.emplace());
  if (column == "n") return set_integer(column, cell, op.n.emplace());
  if (column == "k") return set_integer(column, cell, op.k.emplace());
  if (column == "ranks") return set_integer(column, cell, op.ranks);
  return Error{ErrorCode::Malformed, column, "is no column of a shapes file; legal: op, m, n, k, dtype, ranks"};
}

Result<planner::OpSpec> parse_row(const std::vector<std::string>& heading, std::string_view line,
                                  const OpOptions& defaults) {
  const auto cells = split(line);
  if (cells.size() != heading.size())
    return Error{ErrorCode::Malformed, "",
                 "has " + std::to_string(cells.size()) + " cells where the heading has " + std::to_string(heading.size())};
  OpOptions op = defaults;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (auto set = set_cell(heading[i], cells[i], op); !set) return set.error();
  return op.spec();
}

} // namespace

Result<std::vector<planner::OpSpec>> parse_shapes(std::string_view text, const std::string& file,
                                                  const OpOptions& defaults) {
  std::vector<planner::OpSpec> shapes;
  std::vector<std::string> heading;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    if (heading.empty()) {
      heading = split(line);
      continue;
    }
    const auto op = parse_row(heading, line, defaults);
    const std::string place = file + ":" + std::to_string(number);
    if (!op) return Error{op.error().code, place, op.error().text()};
    if (shapes.size() == kMaxShapeCount)
      return Error{ErrorCode::Malformed, place, "is beyond the limit of " + std::to_string(kMaxShapeCount) + " shapes"};
    shapes.push_back(op.value());
  }
  if (shapes.empty())
    return Error{ErrorCode::Malformed, file, "holds no shapes; write a heading 'm,n,k' and one line per shape"};
  return shapes;
}

} // namespace mc2::cli
