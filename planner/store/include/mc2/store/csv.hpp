#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"

#pragma GCC visibility push(default)

namespace mc2::store {

/// The text as a cell of CSV, in double quotes if it needs them (RFC 4180).
[[nodiscard]] std::string csv_cell(const std::string& text);

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
  bool has_other_columns = false; ///< skips columns that are not listed, whatever they hold; else refuses them
  bool has_comments = true;       ///< skips lines that begin with '#'
};

/// A cell and its place in the line.
struct CsvCell {
  std::string text;
  std::size_t offset = 0; ///< in bytes from the line's start
};

/// A line below the heading. Valid only during the call of `visit`.
class CsvRow {
 public:
  CsvRow(const std::string& file, int line, std::span<const CsvColumn> columns, const std::vector<int>& cell_of,
         const std::vector<CsvCell>& cells)
      : file_(file), line_(line), columns_(columns), cell_of_(cell_of), cells_(cells) {}

  [[nodiscard]] int line() const noexcept { return line_; }
  /// @param column  index into CsvFormat::columns
  [[nodiscard]] bool has(std::size_t column) const { return column < cell_of_.size() && cell_of_[column] >= 0; }
  /// The text of a cell; empty if the file has no such column.
  [[nodiscard]] std::string text(std::size_t column) const;
  /// The place of a cell as "file:line:column"; that of the line if the file has no such column.
  [[nodiscard]] std::string place(std::size_t column) const;
  /// Errors: Malformed unless the cell is a whole number within low..high.
  [[nodiscard]] Result<std::int64_t> whole_number(std::size_t column, std::int64_t low, std::int64_t high) const;
  /// Errors: Malformed unless the cell is a finite number.
  [[nodiscard]] Result<double> number(std::size_t column) const;
  /// The error Malformed with the cell's place as its field, which names the column.
  [[nodiscard]] Error error(std::size_t column, const std::string& message) const;
  /// What a parser returned for a cell, with the cell's place as its error's field.
  template <typename T>
  [[nodiscard]] Result<T> at(std::size_t column, Result<T> parsed) const {
    if (parsed) return parsed;
    return Error{parsed.error().code, place(column), parsed.error().text()};
  }

 private:
  const std::string& file_;
  int line_;
  std::span<const CsvColumn> columns_;
  const std::vector<int>& cell_of_;
  const std::vector<CsvCell>& cells_;
};

/// Reads CSV whose first line is a heading, and calls `visit` for every line below it. Empty lines and comments are
/// skipped, white space around cells is dropped, and a cell in double quotes may hold commas (RFC 4180, without line
/// breaks inside quotes).
/// @param file  for errors, whose field is "file:line:column"; empty: "line 3, column 5"
/// Errors: Malformed for an unknown, repeated or missing column, a line with another number of cells than the heading,
/// more than `max_row_count` lines, and unless the format has other columns a control character or a line above 64 KiB;
/// and what `visit` returns.
[[nodiscard]] Result<void> read_csv(std::string_view text, const std::string& file, const CsvFormat& format,
                                    const std::function<Result<void>(const CsvRow&)>& visit);

} // namespace mc2::store

#pragma GCC visibility pop
