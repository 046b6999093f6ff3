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

/// A column that an importer reads, by any of its names. Names are in the form of plain(), without the unit.
struct WantedColumn {
  std::vector<std::string_view> names;
  std::string_view shown; ///< the names for messages, e.g. "'Op Name' or 'Name'"; used only for required columns
  bool is_required = false;
  bool is_time = false; ///< the heading must give the unit us or none
};

/// Splits lines of CSV and keeps the cells of wanted columns. A quoted cell may hold commas and doubled quotes; its
/// quotes stay.
class CsvColumns {
 public:
  explicit CsvColumns(std::span<const WantedColumn> wanted) : wanted_(wanted) {}

  /// Finds the wanted columns. Errors: Malformed for a required column that is missing, a column that occurs twice, a
  /// time in another unit than us, or a quote that is not closed.
  [[nodiscard]] Result<void> read_heading(std::string_view line);
  /// Whether the line begins like the heading, as in files that were concatenated.
  [[nodiscard]] bool is_heading(std::string_view line) const;
  /// Reads the cells of a row. Returns what is wrong with it: another number of cells than the heading has, a quote
  /// that is not closed, or the end of the log inside it.
  [[nodiscard]] std::optional<std::string> read_row(const Line& line);
  /// The cell of a wanted column; empty where the file has no such column.
  [[nodiscard]] std::string_view cell(std::size_t wanted) const { return cells_[wanted]; }
  [[nodiscard]] bool has(std::size_t wanted) const { return has_[wanted]; }

 private:
  template <typename Visit>
  [[nodiscard]] static bool visit_cells(std::string_view line, Visit visit);

  std::span<const WantedColumn> wanted_;
  std::vector<int> slot_of_; ///< for each cell of a row: the index of the wanted column, or -1
  std::vector<std::string_view> cells_;
  std::vector<bool> has_;
  std::string heading_;
};

/// Passes a table's heading, which has been read already, to `log.begin`, and every line after it to `log.read`.
template <typename Log>
void read_table(const Line& heading, LogReader& reader, Log& log, LogSink& sink) {
  if (auto begun = log.begin(heading.text); !begun) return sink.bad(heading.number, begun.error().message);
  sink.skip(heading.number, "heading");
  for (Line line; reader.next(line);) log.read(line);
}

/// Reads a table that begins with its heading. Errors: Malformed for an empty file, unless the reader has a fault,
/// which import_log() reports.
template <typename Log>
[[nodiscard]] Result<void> read_table(LogReader& reader, Log& log, LogSink& sink) {
  Line heading;
  if (!reader.next(heading))
    return reader.fault().empty() ? Result<void>(Error{ErrorCode::Malformed, "", "is empty"}) : Result<void>();
  read_table(heading, reader, log, sink);
  return {};
}

/// Whether a cell has no value: it is empty, N/A, NA, null, or the largest unsigned 32-bit number.
[[nodiscard]] bool is_missing(std::string_view cell) noexcept;

} // namespace mc2::profiler
