#include "csv.hpp"

#include <algorithm>

namespace mc2::cli {
namespace {

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

} // namespace

Result<CsvTable> parse_csv(std::string_view text, const std::string& file, std::size_t max_rows,
                           const std::string& rows_name) {
  CsvTable table;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    auto cells = split(line);
    if (table.heading.empty()) {
      table.heading = std::move(cells);
      continue;
    }
    const std::string place = file + ":" + std::to_string(number);
    if (cells.size() != table.heading.size())
      return Error{ErrorCode::Malformed, place,
                   "has " + std::to_string(cells.size()) + " cells where the heading has " +
                       std::to_string(table.heading.size())};
    if (table.rows.size() == max_rows)
      return Error{ErrorCode::Malformed, place,
                   "is beyond the limit of " + std::to_string(max_rows) + " " + rows_name};
    table.rows.push_back({number, std::move(cells)});
  }
  if (table.rows.empty())
    return Error{ErrorCode::Malformed, file, "holds no " + rows_name + "; write a heading and one line for each"};
  return table;
}

} // namespace mc2::cli
