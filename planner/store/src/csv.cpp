#include "mc2/store/csv.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "mc2/planner/text.hpp"
#include "mc2/store/text.hpp"

namespace mc2::store {
namespace {

constexpr std::size_t kMaxLineBytes = 64 << 10;
constexpr std::string_view kSpace = " \t\r";
constexpr std::size_t kQuotedBytes = 32; ///< of the file's text that a message quotes

std::string place_text(const std::string& file, int line, std::size_t offset) {
  if (file.empty()) return "line " + std::to_string(line) + ", column " + std::to_string(offset + 1);
  return file + ":" + std::to_string(line) + ":" + std::to_string(offset + 1);
}

Error csv_error(std::string place, std::string message) {
  return {ErrorCode::Malformed, std::move(place), std::move(message)};
}

/// Why a line cannot be split into cells.
struct LineFault {
  std::size_t offset;
  std::string message;
};

/// Appends the text of the quoted cell that begins at `start` to `cell`, without its quotes. Returns where the cell
/// ends; npos if no quote closes it.
std::size_t take_quoted(std::string_view line, std::size_t start, std::string& cell) {
  for (std::size_t i = start + 1; i < line.size(); ++i) {
    if (line[i] != '"') {
      cell += line[i];
    } else if (i + 1 < line.size() && line[i + 1] == '"') {
      cell += line[i++];
    } else {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::optional<LineFault> split(std::string_view line, std::vector<CsvCell>& cells) {
  cells.clear();
  for (std::size_t position = 0; true; ++position) {
    const std::size_t end_of_line = line.size();
    const std::size_t start = std::min(line.find_first_not_of(kSpace, position), end_of_line);
    CsvCell cell{"", start};
    std::size_t end = std::min(line.find(',', position), end_of_line);
    if (start < end_of_line && line[start] == '"') {
      const std::size_t closed = take_quoted(line, start, cell.text);
      if (closed == std::string_view::npos) return LineFault{start, "opens a quote that the line does not close"};
      end = std::min(line.find(',', closed), end_of_line);
      if (!trimmed(line.substr(closed, end - closed)).empty())
        return LineFault{closed, "holds text after a closing quote; write a comma or double the quote"};
    } else {
      cell.text = trimmed(line.substr(position, end - position));
    }
    cells.push_back(std::move(cell));
    if (end == end_of_line) return std::nullopt;
    position = end;
  }
}

std::optional<LineFault> fault_in(std::string_view line) {
  if (line.size() > kMaxLineBytes)
    return LineFault{kMaxLineBytes, "the line is longer than " + std::to_string(kMaxLineBytes) + " bytes"};
  const auto control = std::find_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
  if (control == line.end()) return std::nullopt;
  return LineFault{static_cast<std::size_t>(control - line.begin()),
                   "holds the control character " + std::to_string(static_cast<int>(*control)) + "; write plain text"};
}

std::string listed(std::span<const CsvColumn> columns) { return list_text(columns, &CsvColumn::name); }

/// The index of the cell of every known column; -1 for a column that the heading leaves out.
Result<std::vector<int>> match_heading(const std::string& file, int line, const std::vector<CsvCell>& heading,
                                       const CsvFormat& format) {
  const auto columns = format.columns;
  std::vector<int> cell_of(columns.size(), -1);
  for (std::size_t i = 0; i < heading.size(); ++i) {
    const auto known = std::find_if(columns.begin(), columns.end(),
                                    [&](const CsvColumn& column) { return column.name == heading[i].text; });
    const std::string shown = "'" + heading[i].text.substr(0, kQuotedBytes) + "' ";
    if (known == columns.end() && format.has_other_columns) continue;
    if (known == columns.end())
      return csv_error(place_text(file, line, heading[i].offset), shown + "is no column; legal: " + listed(columns));
    int& cell = cell_of[static_cast<std::size_t>(known - columns.begin())];
    if (cell >= 0) return csv_error(place_text(file, line, heading[i].offset), shown + "is a column twice");
    cell = static_cast<int>(i);
  }
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].is_required && cell_of[i] < 0)
      return csv_error(place_text(file, line, 0),
                       "the heading has no column " + std::string(columns[i].name) + "; legal: " + listed(columns));
  return cell_of;
}

struct Heading {
  std::size_t size = 0;     ///< 0 until it is read
  std::vector<int> cell_of; ///< by column; -1: the heading leaves it out

  [[nodiscard]] std::optional<LineFault> compare(const std::vector<CsvCell>& cells) const {
    if (cells.size() == size) return std::nullopt;
    return LineFault{cells.back().offset, "the line has " + std::to_string(cells.size()) +
                                              " cells where the heading has " + std::to_string(size)};
  }
};

/// Removes the first line from the text and returns it without its line end.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_skipped(std::string_view line, const CsvFormat& format) {
  const std::string_view content = trimmed(line);
  return content.empty() || (content.front() == '#' && format.has_comments);
}

} // namespace

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell.append(c == '"' ? 2 : 1, c);
  return cell + "\"";
}

std::string CsvRow::text(std::size_t column) const {
  return has(column) ? cells_[static_cast<std::size_t>(cell_of_[column])].text : "";
}

std::string CsvRow::place(std::size_t column) const {
  return place_text(file_, line_, has(column) ? cells_[static_cast<std::size_t>(cell_of_[column])].offset : 0);
}

Error CsvRow::error(std::size_t column, const std::string& message) const {
  return csv_error(place(column), std::string(columns_[column].name) + ": " + message);
}

Result<std::int64_t> CsvRow::whole_number(std::size_t column, std::int64_t low, std::int64_t high) const {
  const std::string cell = text(column);
  if (const std::string complaint = complaint_about(cell, low, high); !complaint.empty())
    return error(column, complaint);
  return *number_in<std::int64_t>(cell);
}

Result<double> CsvRow::number(std::size_t column) const {
  const std::string cell = text(column);
  if (const auto value = number_in<double>(cell); value && std::isfinite(*value)) return *value;
  return error(column, "'" + cell.substr(0, kQuotedBytes) + "' is no finite number");
}

Result<void> read_csv(std::string_view text, const std::string& file, const CsvFormat& format,
                      const std::function<Result<void>(const CsvRow&)>& visit) {
  text = without_byte_order_mark(text);
  Heading heading;
  std::vector<CsvCell> cells;
  std::size_t row_count = 0;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    auto fault = format.has_other_columns ? std::nullopt : fault_in(line);
    if (!fault && is_skipped(line, format)) continue;
    if (!fault) fault = split(line, cells);
    if (!fault && heading.size > 0) fault = heading.compare(cells);
    if (fault) return csv_error(place_text(file, number, fault->offset), fault->message);
    if (heading.size == 0) {
      MC2_ASSIGN(auto matched, match_heading(file, number, cells, format));
      heading = {cells.size(), std::move(matched)};
      continue;
    }
    if (row_count++ == format.max_row_count)
      return csv_error(place_text(file, number, 0), "is beyond the limit of " + std::to_string(format.max_row_count) +
                                                        " " + std::string(format.noun) + "s");
    MC2_TRY(visit(CsvRow(file, number, format.columns, heading.cell_of, cells)));
  }
  if (row_count > 0) return {};
  return csv_error(file, "holds no " + std::string(format.noun) + "s; write a heading of columns (" +
                             listed(format.columns) + ") and one line per " + std::string(format.noun));
}

} // namespace mc2::store
