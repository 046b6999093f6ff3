#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "context.hpp"

namespace mc2::cli {

/// One line of a CSV file, spaces around its cells removed.
struct CsvRow {
  int line = 0; ///< from 1
  std::vector<std::string> cells;
};

/// A heading and rows with as many cells; no quoting.
struct CsvTable {
  std::vector<std::string> heading;
  std::vector<CsvRow> rows;
};

/// Empty lines and lines that begin with '#' are skipped.
/// @param rows_name  what messages call the rows, e.g. "shapes"
/// Errors: Malformed with `file` or "file:line" as the field: no heading, no rows, more than `max_rows`, or a row with
/// another number of cells than the heading.
[[nodiscard]] Result<CsvTable> parse_csv(std::string_view text, const std::string& file, std::size_t max_rows,
                                         const std::string& rows_name);

} // namespace mc2::cli
