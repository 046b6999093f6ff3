#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"
#include "mc2/store/text.hpp"

namespace mc2::cli {

using store::csv_cell;

/// A column that a CSV file may have.
struct CsvColumn {
  std::string_view name;
  bool is_required = false;
};

/// The format of a CSV file.
struct CsvFormat {
  std::span<const CsvColumn> columns;
  std::string_view noun; ///< what a line describes, for messages, e.g. "shape"
  std::size_t max_row_count = 0;
  bool has_other_columns = false; ///< skips columns that are not listed; else refuses them
};

/// A cell and its place in the line.
struct CsvCell {
  std::string text;
  std::size_t offset = 0; ///< in bytes from the line's start
};

/// A line below the heading. Valid only during the call of `visit`.
class CsvRow {
 public:
  CsvRow(const std::string& file, int line, const std::vector<int>& cell_of, const std::vector<CsvCell>& cells)
      : file_(file), line_(line), cell_of_(cell_of), cells_(cells) {}

  [[nodiscard]] int line() const noexcept { return line_; }
  /// @param column  index into CsvFormat::columns
  [[nodiscard]] bool has(std::size_t column) const { return cell_of_[column] >= 0; }
  /// The text of a cell; empty if the file has no such column.
  [[nodiscard]] std::string text(std::size_t column) const;
  /// The place of a cell as "file:line:column"; that of the line if the file has no such column.
  [[nodiscard]] std::string place(std::size_t column) const;
  /// Errors: Malformed unless the cell is a whole number within low..high.
  [[nodiscard]] Result<std::int64_t> whole_number(std::size_t column, std::string_view name, std::int64_t low,
                                                  std::int64_t high) const;
  /// Errors: Malformed unless the cell is a finite number.
  [[nodiscard]] Result<double> number(std::size_t column, std::string_view name) const;
  /// The error Malformed with the cell's place as its field.
  [[nodiscard]] Error error(std::size_t column, std::string_view name, const std::string& message) const;

 private:
  const std::string& file_;
  int line_;
  const std::vector<int>& cell_of_;
  const std::vector<CsvCell>& cells_;
};

/// Reads CSV whose first line is a heading, and calls `visit` for every line below it. Empty lines and lines that
/// begin with '#' are skipped, white space around cells is dropped, and a cell in double quotes may hold commas (RFC
/// 4180, without line breaks inside quotes). Errors: Malformed with "file:line:column" as the field for a control
/// character, a line above 64 KiB, an unknown, repeated or missing column, a line with another number of cells than
/// the heading, more than `max_row_count` lines; and what `visit` returns.
[[nodiscard]] Result<void> read_csv(std::string_view text, const std::string& file, const CsvFormat& format,
                                    const std::function<Result<void>(const CsvRow&)>& visit);

} // namespace mc2::cli
