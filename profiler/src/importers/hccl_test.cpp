#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "bandwidth.hpp"
#include "fields.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {
namespace hccl_test {
namespace {

using planner::Collective;

enum Column : std::size_t { kSize, kTime, kBandwidth, kCheck, kColumnCount };
constexpr std::array<std::string_view, kColumnCount> kUnits{"Bytes", "us", "GB/s", "none"};
constexpr std::size_t kMaxCommandBytes = 8192;

/// The column that a heading's cell names. The tool writes "aveg_time(us):", its manual "avg_time(us)".
std::optional<Column> find_column(std::string_view cell) {
  const std::string_view name = trimmed(cell.substr(0, cell.find('(')));
  const std::string word = plain(name);
  if (word == "datasize") return kSize;
  if (word == "avegtime" || word == "avgtime" || word == "averagetime") return kTime;
  if (word == "algbandwidth" && has(cell, "(GB/s)")) return kBandwidth;
  if (word == "checkresult") return kCheck;
  return std::nullopt;
}

/// A program of hccl_test that a command line names and whose collective mc2 does not plan; else empty.
std::string_view other_test(std::string_view text) {
  constexpr std::string_view kTests[] = {"broadcast_test",        "reduce_test",         "scatter_test",
                                         "gather_test",           "all_gather_v_test",   "alltoallv_test",
                                         "reduce_scatter_v_test", "alltoallvc_test",     "send_recv_test",
                                         "sendrecv_test",         "batch_send_recv_test"};
  if (!has(text, "_test")) return {}; // a quick test, because every row comes here
  for (std::string_view word : words(text)) {
    word.remove_prefix(word.find_last_of('/') + 1);
    if (const auto* found = std::ranges::find(kTests, word); found != std::end(kTests)) return *found;
  }
  return {};
}

/// A command line of the log.
struct Command {
  LaunchLine launch;
  std::string other; ///< the test, where mc2 does not plan its collective
};

std::optional<Command> read_command(std::string_view text) {
  if (const auto launch = read_launch_line(text)) return Command{*launch, {}};
  const std::string_view other = other_test(text);
  return other.empty() ? std::nullopt : std::optional(Command{{}, std::string(other)});
}

struct Row {
  std::int64_t size = 0;
  std::chrono::nanoseconds time{0};
  PrintedNumber time_us, bandwidth;
  bool is_checked = false;
};

class HcclTestLog {
 public:
  HcclTestLog(const ImportAnswers& answers, LogSink& sink) : answers_(answers), sink_(sink) {}

  void read(const Line& line) {
    std::string_view text = trimmed(without_launcher_tag(line.text));
    // A command may continue in the next line.
    const bool goes_on = text.ends_with('\\') && command_.size() < kMaxCommandBytes;
    if (goes_on || !command_.empty()) {
      if (goes_on) text.remove_suffix(1);
      command_.append(text).append(" ");
      if (goes_on) return sink_.skip(line.number, "a line that goes on in the next");
      const std::string command = std::exchange(command_, {});
      const auto told = read_command(command);
      const bool is_of_table = has(text, "|"); // a line of the table; the command ended before it
      if (told && !is_of_table) return take_command(line.number, *told);
      if (told) next_command_ = *told;
    }
    if (text.empty()) return sink_.skip(line.number, "blank");
    if (has(text, "check result failed"))
      return sink_.bad(line.number, "the result check failed on a rank: " + shown(text));
    if (const auto told = read_command(text)) return take_command(line.number, *told);
    const auto cells = split(text, '|');
    if (cells.size() > 1 && find_column(cells.front()) == kSize) return begin_table(line.number, cells);
    if (has_table_ && is_row(cells)) return read_row(line, cells);
    sink_.skip_unknown(line.number, line.text, "neither a heading nor a row");
  }

 private:
  /// Whether the cells are a row. Its first cell is a size: a whole number, or one word that begins like a number where
  /// the row has all its cells or the size is below 0. Other programs' lines may have as many bars.
  [[nodiscard]] bool is_row(const std::vector<std::string_view>& cells) const {
    const std::string_view size = cells.front();
    if (parse_whole(size)) return true;
    if (cells.size() < 2 || size.empty() || has(size, " ")) return false;
    return size[0] == '-' || (size[0] >= '0' && size[0] <= '9' && cells.size() == cell_count_);
  }

  void take_command(std::int64_t line, const Command& told) {
    next_command_ = told;
    sink_.skip(line, "command line of a test");
  }

  void begin_table(std::int64_t line, const std::vector<std::string_view>& cells) {
    sink_.next_round();
    const Command told = std::exchange(next_command_, {});
    launch_ = told.launch;
    other_test_ = told.other;
    has_table_ = false;
    if (const std::string fault = ranks_fault(told.launch); !fault.empty()) return sink_.bad(line, fault);
    place_.fill(cells.size());
    cell_count_ = cells.size();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto column = find_column(cells[i]);
      if (!column) continue;
      const std::string fault = unit_fault(cells[i], kUnits[*column]);
      if (!fault.empty() && !(*column == kSize && has(cells[i], "(B)"))) return sink_.bad(line, fault);
      if (place_[*column] != cells.size()) return sink_.bad(line, "'" + shown(cells[i]) + "' is a column twice");
      place_[*column] = i;
    }
    if (place_[kTime] == cells.size())
      return sink_.bad(line, "the heading has no column aveg_time(us) or avg_time(us)");
    has_table_ = true;
    sink_.skip(line, "heading of a table");
  }

  void read_row(const Line& line, const std::vector<std::string_view>& cells) {
    if (!other_test_.empty()) return sink_.skip(line.number, other_test_ + " is no collective that mc2 plans");
    if (const auto fault = row_fault(line, cells.size(), cell_count_, "cells")) return sink_.bad(line.number, *fault);
    const std::string check = place_[kCheck] < cell_count_ ? plain(cells[place_[kCheck]]) : "null";
    if (check != "success" && check != "null")
      return sink_.bad(line.number, "the result check says " + shown(cells[place_[kCheck]]));
    const auto size = parse_whole(cells[place_[kSize]]);
    const auto time = parse_us(cells[place_[kTime]]);
    if (!size) return sink_.bad(line.number, "'" + shown(cells[place_[kSize]]) + "' is no size in bytes");
    if (!time) return sink_.bad(line.number, "'" + shown(cells[place_[kTime]]) + "' is no number");
    if (*size == 0) return sink_.skip(line.number, "a message of 0 bytes");
    const auto cell = [&](Column column) {
      return place_[column] < cell_count_ ? cells[place_[column]] : std::string_view();
    };
    const auto printed = [&](Column column) { return printed_number(cell(column)); };
    if (const std::string fault = cell_fault("alg_bandwidth", cell(kBandwidth)); !fault.empty())
      return sink_.bad(line.number, fault);
    take(line.number, {*size, *time, printed(kTime), printed(kBandwidth), check != "null"});
  }

  /// The bytes that ran. The tool rounds its counts up to whole elements and, where the ranks share one array, to the
  /// same number for every rank.
  [[nodiscard]] static std::int64_t executed_bytes(std::int64_t size, std::int64_t element_bytes, std::int64_t parts) {
    if (size < 1 || size > kMaxMessageBytes) return size;
    const std::int64_t count = planner::ceil_div(size, element_bytes);
    return planner::ceil_div(count, parts) * parts * element_bytes;
  }

  void take(std::int64_t line, const Row& row) {
    const auto collective = launch_.collective ? launch_.collective : answers_.collective;
    const int world_size = launch_.world_size.value_or(answers_.world_size.value_or(0));
    std::int64_t element_bytes = launch_.element_type ? find_element_bytes(*launch_.element_type).value_or(0) : 0;
    if (element_bytes == 0 && answers_.dtype) element_bytes = planner::size_bytes(*answers_.dtype);
    if (!collective) sink_.ask(kAskCollective);
    if (world_size == 0) sink_.ask(kAskRanks);
    if (element_bytes == 0) sink_.ask("which element type was sent (--dtype)");
    if (!collective || world_size == 0) return sink_.skip(line, "the log does not say what was timed");
    if (element_bytes == 0)
      return sink_.skip(line, launch_.element_type
                                  ? "element type " + shown(*launch_.element_type) + " of the command line is unknown"
                                  : "the log does not say which element type was sent");
    const std::int64_t parts = *collective == Collective::AllReduce ? 1 : world_size;
    const std::int64_t bytes = executed_bytes(row.size, element_bytes, parts);
    const std::string name(planner::to_string(*collective));
    if (const std::string why = bandwidth_contradiction(row, bytes, parts); !why.empty())
      return sink_.bad(line, name + ": its " + why);
    sink_.take(line,
               {.collective = *collective,
                .message_bytes = bytes,
                .world_size = launch_.world_size.value_or(0),
                .time = row.time},
               name + (row.is_checked ? ", results checked" : ", results not checked"));
  }

  /// The error text where the bandwidth contradicts size and time. The bandwidth counts the bytes that ran. Where ranks
  /// share one array, newer versions round counts up further, to less than twice as many.
  [[nodiscard]] static std::string bandwidth_contradiction(const Row& row, std::int64_t bytes, std::int64_t parts) {
    if (row.size < 1 || row.size > kMaxMessageBytes) return {}; // no size of a message
    const std::int64_t most = parts == 1 ? bytes : std::max(bytes, 2 * row.size);
    const auto fault = [&](double bytes_per_gb) {
      const double scale = bytes_per_gb / 1e9;
      return bandwidth_fault("alg_bandwidth", row.size, most, row.time_us,
                             {row.bandwidth.value * scale, row.bandwidth.rounding * scale});
    };
    constexpr double kBytesPerGib = 1 << 30; // of old versions, as in the manual's example
    return fault(kBytesPerGib).empty() ? "" : fault(1e9);
  }

  const ImportAnswers& answers_;
  LogSink& sink_;
  Command next_command_;   ///< of the table that follows
  LaunchLine launch_;      ///< launch line of the current table
  std::string other_test_; ///< the current table's test, where mc2 does not plan its collective
  std::string command_;    ///< the lines so far of a command in several lines
  bool has_table_ = false;
  std::size_t cell_count_ = 0;
  std::array<std::size_t, kColumnCount> place_{}; ///< cell index of each column; cell_count_ where there is none
};

} // namespace
} // namespace hccl_test

bool detect_hccl_test(std::string_view head) {
  const std::size_t at = head.find("data_size");
  return at != std::string_view::npos && has(head.substr(at, 256), "|");
}

Result<void> read_hccl_test(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  return read_lines(reader, hccl_test::HcclTestLog(answers, sink));
}

} // namespace mc2::profiler
