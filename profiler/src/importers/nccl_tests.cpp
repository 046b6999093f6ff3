#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "fields.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/profiler/importer.hpp"
#include "nccl_rank_list.hpp"
#include "nccl_row.hpp"
#include "nccl_row_pieces.hpp"

namespace mc2::profiler {
namespace nccl_tests {
namespace {

using planner::Collective;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);
constexpr std::size_t kMaxPendingRows = 100'000;

/// One row of a test, kept until the test's end says whether its results were right.
struct Row {
  std::int64_t line = 0;
  Timing timing;
  bool is_in_place = false;
  bool is_checked = false;
  std::string redop;
  NcclRow says; ///< without redop
};

/// The cell index of each column of a table.
struct Table {
  std::size_t cell_count = 0; ///< cells of a row without its time stamp
  bool has_time_stamp = false;
  std::size_t size = kNone, count = kNone, type = kNone, redop = kNone, root = kNone;
  std::size_t alg_bandwidth[2] = {kNone, kNone}, bus_bandwidth[2] = {kNone, kNone};
  std::size_t time[2] = {kNone, kNone};  ///< out of place, in place
  std::size_t wrong[2] = {kNone, kNone}; ///< number of wrong elements
  std::size_t error[2] = {kNone, kNone}; ///< in old versions: largest error, with an asterisk where it is too large

  void swap_sides() {
    for (auto* sides : {&alg_bandwidth, &bus_bandwidth, &time, &wrong, &error}) std::swap((*sides)[0], (*sides)[1]);
  }
};

/// The columns of a heading. Of two columns with one name, the first is out of place, the second in place.
Table table_of(const std::vector<std::string_view>& names) {
  Table table;
  std::size_t times = 0, wrongs = 0, errors = 0, algs = 0, buses = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "timestamp") table.has_time_stamp = i + 1 == names.size();
    if (names[i] == "size") table.size = i;
    if (names[i] == "count") table.count = i;
    if (names[i] == "type") table.type = i;
    if (names[i] == "redop") table.redop = i;
    if (names[i] == "root") table.root = i;
    if (names[i] == "algbw" && algs < 2) table.alg_bandwidth[algs++] = i;
    if (names[i] == "busbw" && buses < 2) table.bus_bandwidth[buses++] = i;
    if (names[i] == "time" && times < 2) table.time[times++] = i;
    if (names[i] == "#wrong" && wrongs < 2) table.wrong[wrongs++] = i;
    if (names[i] == "error" && errors < 2) table.error[errors++] = i;
  }
  return table;
}

/// Fills the cells of the first side with empty ones where the row has 32 blanks there, as of collectives that were not
/// timed on that side.
void fill_blank_side(std::vector<std::string_view>& parts, const Table& table) {
  constexpr std::ptrdiff_t kBlankSide = 32; // other gaps are shorter: a column has at most 12 characters
  const auto [first, second] = std::minmax(table.time[0], table.time[1]);
  if (second == kNone || first == 0 || parts.size() + (second - first) != table.cell_count) return;
  const std::string_view before = parts[first - 1];
  if (parts[first].data() - (before.data() + before.size()) < kBlankSide) return;
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(first), second - first, std::string_view());
}

/// Whether the words are a row: as many as there are columns, with an element type in its place; or beginning with two
/// whole numbers, as a truncated row does. The number of words alone is not enough, because lines that libraries write
/// between rows may have as many.
bool is_row(const std::vector<std::string_view>& parts, const Table& table) {
  if (parts.size() == table.cell_count && table.type != kNone && find_element_bytes(parts[table.type])) return true;
  return parse_whole(parts.front()) && (parts.size() < 2 || parse_whole(parts[1]));
}

/// A program of nccl-tests that a command line names and whose collective mc2 does not plan; else empty.
std::string_view other_program(std::string_view text) {
  constexpr std::string_view kPrograms[] = {"broadcast_perf", "reduce_perf",    "gather_perf",   "scatter_perf",
                                            "sendrecv_perf",  "alltoallv_perf", "hypercube_perf"};
  if (!has(text, "_perf")) return {};
  for (std::string_view word : words(text)) {
    word.remove_prefix(word.find_last_of('/') + 1);
    if (word.ends_with("_mpi")) word.remove_suffix(4);
    if (std::ranges::find(kPrograms, word) != std::end(kPrograms)) return word;
  }
  return {};
}

class NcclTestsLog {
 public:
  NcclTestsLog(const ImportAnswers& answers, LogSink& sink) : answers_(answers), sink_(sink) {}

  void read(const Line& line) {
    std::string_view text = trimmed(without_launcher_tag(line.text));
    if (text.empty()) return sink_.skip(line.number, "blank");
    const bool is_comment = text.starts_with('#');
    if (is_comment) text = trimmed(text.substr(1));
    if (text.empty()) return sink_.skip(line.number, "comment");
    if (is_comment) break_off_row();
    if (table_.cell_count > 0 && !is_comment) return read_table_line(line, text);
    read_comment(line, text);
  }

  void finish(std::int64_t last_line) { end_test(last_line, false); }

 private:
  void read_table_line(const Line& line, std::string_view text) {
    const std::string untagged = has(text, "[") ? without_inner_tags(text) : std::string();
    if (!untagged.empty()) text = untagged;
    if (const auto row = before_message(text)) return read_piece(line, *row, true);
    auto parts = words(text);
    if (!broken_row_.empty() && !begins_row(parts) && continues_row(parts)) return read_piece(line, text, false);
    const auto row = whole_row(std::move(parts));
    if (!is_row(row, table_)) return read_comment(line, text);
    break_off_row();
    read_row(line, row);
  }

  /// @param is_before_message  whether a message of NCCL ends the piece
  void read_piece(const Line& line, std::string_view piece, bool is_before_message) {
    const auto parts = words(piece);
    if (begins_row(parts)) {
      break_off_row();
      broken_row_line_ = line.number;
    } else if (broken_row_.empty() || !continues_row(parts)) {
      return sink_.skip(line.number, is_before_message ? "message of NCCL" : "comment");
    } else {
      sink_.skip(line.number, "rest of a row");
    }
    broken_row_.append(piece).append(" ");
    const std::string joined = broken_row_;
    const auto row = whole_row(words(joined));
    if (row.size() < table_.cell_count) return;
    broken_row_.clear();
    read_row({.text = joined, .number = broken_row_line_, .is_terminated = line.is_terminated}, row);
  }

  /// Reports a row whose other cells do not follow the message that broke it.
  void break_off_row() {
    if (broken_row_.empty()) return;
    broken_row_.clear();
    sink_.bad(broken_row_line_, "a message of NCCL breaks this row, and its other cells do not follow");
  }

  /// The row without its time stamp, and with an empty operation where old all-to-all logs leave that column blank.
  [[nodiscard]] std::vector<std::string_view> whole_row(std::vector<std::string_view> parts) const {
    // "2026-11-27 05:15:21" after the numbers.
    const bool has_stamp = table_.has_time_stamp && parts.size() > 2 && has(parts.back(), ":") &&
                           parts[parts.size() - 2].find('-', 1) != std::string_view::npos;
    if (has_stamp) parts.resize(parts.size() - 2);
    fill_blank_side(parts, table_);
    if (table_.redop == kNone || parts.size() + 1 != table_.cell_count || table_.redop > parts.size()) return parts;
    const bool has_operation = table_.redop < parts.size() && parts[table_.redop].find_first_of("0123456789.") != 0 &&
                               !parts[table_.redop].starts_with('-');
    if (!has_operation) parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(table_.redop), "none");
    return parts;
  }

  /// @param text  the line without its tag and '#'
  void read_comment(const Line& whole, std::string_view text) {
    const std::int64_t line = whole.number;
    if (text.starts_with("Collective test starting:"))
      return begin_heading(line, find_program(words(text).back()), words(text).back());
    if (text.starts_with("Collective test concluded")) return sink_.skip(line, "comment");
    if (text.starts_with("nThread ")) return begin_ranks(line, text);
    for (const std::string_view failure : {"Test NCCL failure", "Test CUDA failure", "Test timeout"})
      if (failure_.empty() && has(text, failure)) failure_ = "line " + std::to_string(line) + ": " + shown(text);
    const bool is_blocking = text.starts_with("Blocking Enabled") && has(text, "barrier");
    if (is_blocking && !has(text, "no barrier") && !has(text, "excludes barrier"))
      why_untimed_ = "its time contains a barrier (-z 1)";
    if (text.starts_with("Using devices") && is_after_verdict_) { // the list of another test follows
      ranks_.clear();
      is_after_verdict_ = false;
    }
    if (text.starts_with("Rank ")) return read_rank(line, text);
    if (text.starts_with("size ") && has(text, "time")) return begin_table(line, text);
    if (text.starts_with("bytes ") && has(text, "busbw"))
      return sink_.bad(line, "a table of early nccl-tests, whose times are in ms; run a newer version");
    if (text == "in-place" || (text.starts_with("in-place ") && text.ends_with(" out-of-place")))
      has_in_place_first_ = true;
    if (text.starts_with("(B)") || text.starts_with("(")) return check_units(line, text);
    if (text.starts_with("Out of bounds values")) return read_verdict(line, text);
    if (text.starts_with("nccl-tests version")) read_version("nccl_tests", text);
    if (text.starts_with("rccl-tests:")) sink_.fact("rccl_tests", words(text).back());
    if (text.starts_with("NCCL version") || text.starts_with("RCCL version")) read_library(words(text));
    if (const auto launch = read_launch_line(text)) return begin_test(line, launch->collective, "");
    if (const auto other = other_program(text); !other.empty()) return begin_test(line, std::nullopt, other);
    sink_.skip_unknown(line, whole.text, "comment");
  }

  /// "NCCL version 2.28.7+cuda13.0", "RCCL version : 2.22.3-develop".
  void read_library(const std::vector<std::string_view>& parts) {
    const auto version =
        std::ranges::find_if(parts, [](std::string_view part) { return part[0] >= '0' && part[0] <= '9'; });
    if (version != parts.end()) sink_.fact("nccl", planner::nccl_version(*version));
  }

  void read_version(const char* key, std::string_view text) {
    const auto parts = words(text);
    if (parts.size() > 2) sink_.fact(key, parts[2]);
    for (const std::string_view part : parts)
      if (part.starts_with("nccl-library=")) sink_.fact("nccl", planner::nccl_version(part.substr(13)));
  }

  void begin_test(std::int64_t line, std::optional<Collective> collective, std::string_view name) {
    end_test(line, false);
    collective_ = collective;
    is_named_ = collective.has_value() || !name.empty();
    name_ = std::string(name.substr(0, 48));
    sink_.skip(line, "name of a test");
  }

  void begin_heading(std::int64_t line, std::optional<Collective> collective, std::string_view name) {
    begin_test(line, collective, name);
    is_headed_ = true;
  }

  void begin_ranks(std::int64_t line, std::string_view text) {
    if (is_open_) end_test(line, false);
    constexpr std::string_view kAggregated = "agg iters: ";
    const std::size_t at = text.find(kAggregated);
    const auto parts = words(at == std::string_view::npos ? std::string_view() : text.substr(at + kAggregated.size()));
    const auto launched = parts.empty() ? std::nullopt : parse_whole(parts[0]);
    why_untimed_ =
        launched.value_or(1) > 1 ? "its launch ran " + std::to_string(*launched) + " collectives at once (-m)" : "";
    is_headed_ = true;
    ranks_.begin_launch(text);
    is_after_verdict_ = false;
    sink_.skip(line, "comment");
  }

  void read_rank(std::int64_t line, std::string_view text) {
    const auto device = ranks_.read(text);
    if (!device) return sink_.skip(line, "comment");
    if (!device->empty()) sink_.fact("device", *device);
    sink_.skip(line, "rank of the test");
  }

  void begin_table(std::int64_t line, std::string_view text) {
    break_off_row();
    if (table_.cell_count > 0 && !rows_.empty()) end_test(line, false);
    const auto names = words(text);
    table_ = table_of(names);
    has_wrong_.fill(false);
    if (std::exchange(has_in_place_first_, false)) table_.swap_sides();
    const bool has_twins =
        std::count(names.begin(), names.end(), "time") > 2 || std::count(names.begin(), names.end(), "size") > 1;
    if (std::ranges::find(names, "cputime") != names.end()) {
      is_open_ = true;
      return sink_.bad(line, "cputime is what the host needs to start a collective, not what it takes; run without -C");
    }
    if ((table_.time[0] == kNone && table_.time[1] == kNone) || has_twins)
      return sink_.bad(line, has_twins ? "a column stands in the heading twice" : "the heading has no column time");
    table_.cell_count = names.size() - (table_.has_time_stamp ? 1 : 0);
    is_open_ = true;
    sink_.next_round();
    sink_.skip(line, "heading of a table");
  }

  void check_units(std::int64_t line, std::string_view text) {
    for (const std::string_view unit : words(text)) {
      if (unit == "(B)" || unit == "(elements)" || unit == "(us)" || unit == "(GB/s)" || unit == "(%)" ||
          !unit.starts_with('('))
        continue;
      if (table_.cell_count == 0) break;
      table_ = {};
      return sink_.bad(line,
                       "the heading's unit " + shown(unit) + " is not one of (B), (elements), (us), (GB/s) and (%)");
    }
    sink_.skip(line, "units of a table");
  }

  void read_verdict(std::int64_t line, std::string_view text) {
    end_test(line, true, has(text, "FAILED"));
    is_after_verdict_ = true;
    sink_.skip(line, "verdict of a test");
  }

  void read_row(const Line& line, const std::vector<std::string_view>& parts) {
    if (const auto fault = row_fault(line, parts.size(), table_.cell_count)) return sink_.bad(line.number, *fault);
    if (is_named_ && !collective_) return sink_.skip(line.number, name_ + " is no collective that mc2 plans");
    if (ranks_.count() == 1 && !ranks_.has_twins()) return sink_.skip(line.number, "of one rank, which sends nothing");
    if (ranks_.group_count() > 1)
      return sink_.skip(line.number,
                        "of " + std::to_string(ranks_.group_count()) + " groups at once (NCCL_TESTS_SPLIT)");
    if (!why_untimed_.empty()) return sink_.skip(line.number, "not what one collective takes: " + why_untimed_);
    if (ranks_.has_twins())
      return sink_.bad(
          line.number,
          "two processes call themselves the same rank: nccl-tests was built without MPI=1 and each ran alone");
    const auto size = parse_whole(parts[table_.size]);
    if (!size) return sink_.bad(line.number, "'" + shown(parts[table_.size]) + "' is no size in bytes");
    if (table_.count != kNone && !parse_whole(parts[table_.count]))
      return sink_.bad(line.number, "'" + shown(parts[table_.count]) + "' is no number of elements");
    for (const bool is_in_place : {false, true}) read_timing(line.number, parts, *size, is_in_place);
  }

  void read_timing(std::int64_t line, const std::vector<std::string_view>& parts, std::int64_t size, bool is_in_place) {
    const std::size_t side = is_in_place ? 1 : 0, at = table_.time[side], wrong = table_.wrong[side];
    const bool is_timed = at != kNone && !parts[at].empty() && parts[at] != "N/A";
    const std::string check = is_timed ? check_fault(parts, side) : "";
    if (!check.empty()) has_wrong_[side] = true;
    if (!is_wanted(is_in_place)) return;
    const std::string where = is_in_place ? "in place: " : "out of place: ";
    if (!is_in_place && at == kNone && answers_.buffers == Buffers::OutOfPlace)
      sink_.ask("that in-place times are to be taken, as it has no others (--buffers in-place)");
    if (at == kNone || parts[at].empty())
      return sink_.skip(line, where + "not timed" + (is_in_place ? "" : "; see --buffers in-place"));
    if (!is_timed) return sink_.skip(line, where + "no time (N/A)");
    if (!check.empty()) return sink_.bad(line, where + check);
    const auto time = parse_us(parts[at]);
    if (!time) return sink_.bad(line, where + "'" + shown(parts[at]) + "' is no time");
    if (size == 0) return sink_.skip(line, "a message of 0 bytes");
    for (const auto& [name, column] :
         {std::pair{"algbw", table_.alg_bandwidth[side]}, std::pair{"busbw", table_.bus_bandwidth[side]}})
      if (const std::string fault = column == kNone ? "" : cell_fault(name, parts[column]); !fault.empty())
        return sink_.bad(line, where + fault);
    if (rows_.size() == kMaxPendingRows) return sink_.bad(line, "the test has more than 100000 rows");
    rows_.push_back({line,
                     {.message_bytes = size, .time = *time},
                     is_in_place,
                     wrong != kNone && parts[wrong] != "N/A",
                     table_.redop == kNone ? std::string() : std::string(parts[table_.redop]),
                     said_of(parts, size, is_in_place ? 1 : 0)});
    if (ranks_.count() == 0) find_ranks(parts, size);
  }

  [[nodiscard]] bool is_wanted(bool is_in_place) const {
    return answers_.buffers == Buffers::Both || is_in_place == (answers_.buffers == Buffers::InPlace);
  }

  /// What the result check found wrong on a side of the row; empty where nothing is.
  [[nodiscard]] std::string check_fault(const std::vector<std::string_view>& parts, std::size_t side) const {
    const std::size_t wrong = table_.wrong[side], error = table_.error[side];
    if (wrong != kNone && parts[wrong] != "N/A" && parse_whole(parts[wrong]) != 0)
      return "the result check found " + shown(parts[wrong]) + " wrong elements";
    if (error != kNone && parts[error].ends_with('*'))
      return "an error of " + shown(parts[error]) + " is above the threshold";
    return {};
  }

  [[nodiscard]] NcclRow said_of(const std::vector<std::string_view>& parts, std::int64_t size, std::size_t side) const {
    const auto printed = [&](std::size_t at) { return at == kNone ? PrintedNumber() : printed_number(parts[at]); };
    NcclRow row;
    row.size_bytes = size;
    if (table_.count != kNone && table_.type != kNone) {
      row.count = parse_whole(parts[table_.count]).value_or(0);
      row.element_bytes = find_element_bytes(parts[table_.type]).value_or(0);
    }
    if (table_.root != kNone) row.root = parse_whole(parts[table_.root]).value_or(-1);
    row.time_us = printed(table_.time[side]);
    row.alg_bandwidth = printed(table_.alg_bandwidth[side]);
    row.bus_bandwidth = printed(table_.bus_bandwidth[side]);
    return row;
  }

  /// Derives the ranks where the list does not tell them: size / (count * element bytes), because the size is that of
  /// all ranks and the count that of one. This does not hold for all-reduce.
  void find_ranks(const std::vector<std::string_view>& parts, std::int64_t size) {
    if (!collective_ || *collective_ == Collective::AllReduce || table_.count == kNone || table_.type == kNone) return;
    const auto count = parse_whole(parts[table_.count]);
    const auto element_bytes = find_element_bytes(parts[table_.type]);
    if (!count || !element_bytes || *count < 1 || *count > size / *element_bytes ||
        size % (*count * *element_bytes) != 0)
      return;
    const std::int64_t ranks = size / (*count * *element_bytes);
    if (ranks <= planner::kMaxWorldSize) derived_ranks_ = static_cast<int>(ranks);
  }

  /// @param has_verdict  whether "Out of bounds values" was read; without it the log is truncated
  void end_test(std::int64_t line, bool has_verdict, bool has_failed = false) {
    break_off_row();
    const std::string failure = std::exchange(failure_, {});
    if ((is_open_ || is_headed_) && !has_verdict)
      sink_.bad(line, "the test before this line has no end ('# Out of bounds values'): " +
                          (failure.empty() ? "the log is cut" : "it failed, " + failure));
    const std::string verdict = has_failed ? verdict_fault() : "";
    for (const Row& row : rows_) {
      if (verdict.empty())
        take(row);
      else
        sink_.bad(row.line, verdict);
    }
    rows_.clear();
    has_wrong_.fill(false);
    table_ = {};
    is_open_ = is_headed_ = false;
    derived_ranks_ = 0;
    if (!has_verdict) return;
    collective_.reset(); // the name does not hold for the next test
    is_named_ = false;
  }

  /// What is wrong with all rows of a test that failed; empty where a row that was to be taken has the wrong results.
  [[nodiscard]] std::string verdict_fault() const {
    for (const bool is_in_place : {false, true})
      if (has_wrong_[is_in_place ? 1 : 0] && is_wanted(is_in_place)) return {};
    const std::string fault = "the test's results were out of bounds";
    if (has_wrong_[0] || has_wrong_[1]) return fault + (has_wrong_[1] ? " in place" : " out of place");
    return fault + ", and no row says which";
  }

  /// What is wrong where the list of ranks is not whole; empty where the number of ranks is known all the same.
  /// @param known  0 where the log does not tell it
  [[nodiscard]] std::string rank_fault(int known) const {
    if (ranks_.is_empty()) return {};
    const std::int64_t count = known > 0 ? known : answers_.world_size.value_or(0);
    if (count == 0) return "the list of ranks is not whole, " + ranks_.gap() + "; say " + std::string(kAskRanks);
    if (count >= ranks_.least_count()) return {};
    return "it lists rank " + std::to_string(ranks_.least_count() - 1) + ", which a test of " + std::to_string(count) +
           " ranks does not have";
  }

  void take(const Row& row) {
    const auto collective = sink_.collective_of(row.line, collective_, answers_);
    if (!collective) return;
    Timing timing = row.timing;
    timing.collective = *collective;
    timing.world_size = ranks_.count() > 0 ? ranks_.count() : derived_ranks_;
    if (const std::string why = rank_fault(timing.world_size); !why.empty()) return sink_.bad(row.line, why);
    NcclRow says = row.says;
    says.redop = row.redop;
    const int ranks = timing.world_size > 1 ? timing.world_size : answers_.world_size.value_or(0);
    if (const std::string why = contradiction(*collective, ranks, says); !why.empty())
      return sink_.bad(row.line, std::string(planner::to_string(*collective)) + ": " + why);
    sink_.take(row.line, timing,
               std::string(planner::to_string(*collective)) + (row.is_in_place ? ", in place" : ", out of place") +
                   (row.is_checked ? "" : ", results not checked"));
  }

  const ImportAnswers& answers_;
  LogSink& sink_;
  std::optional<Collective> collective_;
  bool is_named_ = false; ///< whether the log names the collective, planned or not
  std::string name_;
  std::string why_untimed_; ///< why the test's times are not those of one collective; empty where they are
  NcclRankList ranks_;
  int derived_ranks_ = 0;
  bool is_after_verdict_ = false; ///< the verdict of a test with listed ranks was read
  bool is_open_ = false;          ///< a table's verdict is still to come
  bool is_headed_ = false;        ///< the lines before a table were read; the table and its verdict are still to come
  bool has_in_place_first_ =
      false; ///< the next table names in-place times first (mscclpp-test), or alone (rccl-tests -O 0)
  Table table_;
  std::vector<Row> rows_;
  std::array<bool, 2> has_wrong_{}; ///< whether a row of the test has wrong results out of place, in place
  std::string failure_;             ///< what the test's program said of one, and where
  std::string broken_row_;          ///< the pieces so far of a row that messages of NCCL broke; else empty
  std::int64_t broken_row_line_ = 0;
};

} // namespace
} // namespace nccl_tests

bool detect_nccl_tests(std::string_view head) {
  if (has(head, "nccl-tests version") || has(head, "rccl-tests:")) return true;
  return (has(head, "nThread ") && has(head, "minBytes ")) || (has(head, "redop") && has(head, "busbw"));
}

Result<void> read_nccl_tests(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  using namespace nccl_tests;
  NcclTestsLog log(answers, sink);
  for (Line line; reader.next(line);) log.read(line);
  log.finish(reader.line_number());
  return {};
}

} // namespace mc2::profiler
