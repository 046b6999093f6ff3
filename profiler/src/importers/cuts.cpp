#include <algorithm>
#include <string>
#include <vector>

#include "csv_columns.hpp"
#include "fields.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {
namespace cuts {
namespace {

enum Column : std::size_t { kBlocks, kFused, kSerial, kCompute, kCommunication, kComputeBlocks, kCommunicationBlocks };

const std::vector<WantedColumn>& columns() {
  static const std::vector<WantedColumn> kColumns{{{"blocks", "plan"}, "'blocks' or 'plan'", true},
                                                  {{"fusedus", "fused"}, "'fused_us'", true, true},
                                                  {{"serialus", "serial"}, "", false, true},
                                                  {{"computeus", "compute"}, "", false, true},
                                                  {{"communicationus", "communication"}, "", false, true},
                                                  {{"computeblocksus", "computeblocks"}, "", false, true},
                                                  {{"communicationblocksus", "communicationblocks"}, "", false, true}};
  return kColumns;
}

/// Whether the line is blank or a comment.
bool is_remark(std::string_view line) { return trimmed(line).empty() || trimmed(line).front() == '#'; }

bool is_digest(std::string_view text) {
  return text.size() >= 6 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         text.find_first_of("abcdef") != std::string_view::npos;
}

/// The unit of time that ends a column's name; empty where none does.
std::string_view unit_of(std::string_view name) {
  static constexpr std::string_view kUnits[] = {"us", "usec", "usecs", "microsec", "microseconds",
                                                "ms", "msec", "msecs", "millisec", "milliseconds",
                                                "ns", "nsec", "nsecs", "nanosec",  "nanoseconds"};
  while (!name.empty() && plain(name.substr(name.size() - 1)).empty()) name.remove_suffix(1); // "serial [ms]"
  std::size_t begin = name.size();
  while (begin > 0 && !plain(name.substr(begin - 1, 1)).empty()) --begin;
  const std::string word = plain(name.substr(begin));
  const auto* found = begin == 0 ? std::end(kUnits) : std::ranges::find(kUnits, word);
  return found == std::end(kUnits) ? std::string_view() : *found;
}

/// The error text for an unknown column that is named like a time: its times would be left out without a word.
std::string unknown_time_fault(std::string_view heading) {
  for (const std::string_view cell : split(heading, ',')) {
    const std::string_view name = bare(cell);
    const std::string word = plain(name.substr(0, name.find('(')));
    const bool is_known = std::ranges::any_of(columns(), [&](const WantedColumn& column) {
      return std::ranges::find(column.names, word) != column.names.end();
    });
    const bool is_rate = name.find('/') != std::string_view::npos;
    if (!is_known && !is_rate && !unit_of(name).empty())
      return "column '" + shown(name) +
             "' is named like a time, and mc2 reads fused_us, serial_us, compute_us, communication_us, "
             "compute_blocks_us "
             "and communication_blocks_us; rename it or leave it out";
  }
  return {};
}

class CutTable {
 public:
  explicit CutTable(LogSink& sink) : sink_(sink), row_(columns()) {}

  [[nodiscard]] Result<void> begin(std::string_view heading) {
    MC2_TRY(row_.read_heading(heading));
    std::string fault = unknown_time_fault(heading);
    return fault.empty() ? Result<void>() : Result<void>(Error{ErrorCode::Malformed, "", std::move(fault)});
  }

  void read(const Line& line) {
    if (trimmed(line.text).empty()) return sink_.skip(line.number, "blank");
    if (trimmed(line.text).front() == '#') return sink_.skip(line.number, "a comment");
    if (row_.is_heading(line.text)) return sink_.skip(line.number, "the heading again");
    if (const auto fault = row_.read_row(line)) return sink_.bad(line.number, *fault);
    FusedTiming timing;
    timing.blocks = std::string(bare(row_.cell(kBlocks)));
    if (!is_digest(timing.blocks))
      if (const auto cut = planner::parse_cut(timing.blocks); !cut) return sink_.bad(line.number, cut.error().message);
    for (const auto& [column, us] :
         {std::pair{kFused, &timing.fused_us}, std::pair{kSerial, &timing.serial_us},
          std::pair{kCompute, &timing.compute_us}, std::pair{kCommunication, &timing.communication_us},
          std::pair{kComputeBlocks, &timing.compute_blocks_us},
          std::pair{kCommunicationBlocks, &timing.communication_blocks_us}})
      if (!read_time(line.number, column, *us)) return;
    sink_.take(line.number, std::move(timing), "a measured cut");
  }

 private:
  /// Reads the time of a cell. False, and the line is bad, where the cell is no time above 0.
  [[nodiscard]] bool read_time(std::int64_t line, Column column, double& us) {
    const std::string_view cell = bare(row_.cell(column));
    if (column != kFused && is_missing(cell)) return true;
    const auto time = parse_us(cell);
    if (!time || time->count() <= 0) {
      sink_.bad(line, "'" + shown(cell) + "' is no time above 0 and below 9e15 us");
      return false;
    }
    us = planner::to_us(*time);
    return true;
  }

  LogSink& sink_;
  CsvColumns row_;
};

} // namespace
} // namespace cuts

bool detect_cuts(std::string_view head) {
  std::string_view first = head.substr(0, head.find('\n'));
  while (cuts::is_remark(first) && first.size() < head.size()) {
    head.remove_prefix(first.size() + 1);
    first = head.substr(0, head.find('\n'));
  }
  if (first.find(',') == std::string_view::npos) return false;
  const auto cells = split(first, ',');
  const auto has = [&](auto... names) {
    return std::ranges::any_of(
        cells, [&](std::string_view cell) { return ((plain(bare(cell.substr(0, cell.find('(')))) == names) || ...); });
  };
  return has("blocks", "plan") && has("fusedus", "fused", "fusedms", "fusedns", "fuseds");
}

Result<void> read_cuts(LogReader& reader, const ImportAnswers& /*answers*/, LogSink& sink) {
  cuts::CutTable table(sink);
  Line line;
  while (reader.next(line) && cuts::is_remark(line.text)) sink.skip(line.number, "a comment before the heading");
  read_table(line, reader, table, sink);
  return {};
}

} // namespace mc2::profiler
