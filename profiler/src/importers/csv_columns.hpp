#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::profiler {

/// A column that an importer reads, by any of its names. Names are compared as plain() gives them, without the unit.
struct WantedColumn {
  std::vector<std::string_view> names;
  std::string_view shown; ///< for messages, e.g. "'Op Name' or 'Name'"; of required columns
  bool is_required = false;
  bool is_time = false; ///< its unit must be us, or not be named
};

/// Splits lines of CSV and keeps the cells of wanted columns. A quoted cell may hold commas and doubled quotes; its
/// quotes stay.
class CsvColumns {
 public:
  explicit CsvColumns(std::span<const WantedColumn> wanted) : wanted_(wanted) {}

  /// Finds the wanted columns. Errors: Malformed for a required one that is missing, one that stands there twice, or
  /// a time in another unit than us.
  [[nodiscard]] Result<void> read_heading(std::string_view line);
  /// Whether the line begins like the heading: files that were put together.
  [[nodiscard]] bool is_heading(std::string_view line) const;
  /// What is wrong with the row: another number of cells than the heading, a quote that is not closed, or an end inside
  /// it.
  [[nodiscard]] std::optional<std::string> read_row(const Line& line);
  /// The cell of a wanted column; empty where the file has no such column.
  [[nodiscard]] std::string_view cell(std::size_t wanted) const { return cells_[wanted]; }
  [[nodiscard]] bool has(std::size_t wanted) const { return has_[wanted]; }

 private:
  template <typename Visit>
  [[nodiscard]] static bool visit_cells(std::string_view line, Visit visit);

  std::span<const WantedColumn> wanted_;
  std::vector<int> slot_of_; ///< by cell of the file: the wanted column, or -1
  std::vector<std::string_view> cells_;
  std::vector<bool> has_;
  std::string heading_;
};

/// Gives a table's heading, which has been read, to `log.begin`, and every line behind it to `log.read`.
template <typename Log>
void read_table(const Line& heading, LogReader& reader, Log& log, LogSink& sink) {
  if (auto begun = log.begin(heading.text); !begun) return sink.bad(heading.number, begun.error().message);
  sink.skip(heading.number, "heading");
  for (Line line; reader.next(line);) log.read(line);
}

/// Of a table that begins with its heading. Errors: Malformed for an empty file, unless the reader says why it is.
template <typename Log>
[[nodiscard]] Result<void> read_table(LogReader& reader, Log& log, LogSink& sink) {
  Line heading;
  if (!reader.next(heading))
    return reader.fault().empty() ? Result<void>(Error{ErrorCode::Malformed, "", "is empty"}) : Result<void>();
  read_table(heading, reader, log, sink);
  return {};
}

/// Whether a cell says that there is no value: empty, N/A, or the largest unsigned 32-bit number.
[[nodiscard]] bool is_missing(std::string_view cell) noexcept;

} // namespace mc2::profiler
