#include <algorithm>
#include <string>
#include <utility>

#include "fields.hpp"
#include "full_array.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {
namespace osu {
namespace {

using planner::Collective;
using planner::Component;

constexpr std::string_view kNotPlanned = "is no collective that mc2 plans";

/// OSU counts what one rank sends to one other: the whole vector in reductions, a shard in all-gather, one peer's
/// part in all-to-all.
SizeMeaning meaning_of(Collective collective) {
  const bool is_part = collective == Collective::AllGather || collective == Collective::AllToAll;
  return is_part ? SizeMeaning::PerRank : SizeMeaning::FullArray;
}

std::string_view without_hash(std::string_view text) {
  text = trimmed(text);
  return text.starts_with('#') ? trimmed(text.substr(1)) : text;
}

/// The cells of a heading, which two or more blanks separate: "Avg Latency(us)" is one cell.
std::vector<std::string> heading_cells(std::string_view text) {
  std::vector<std::string> cells;
  bool joins = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \t", at), text.size());
    const std::string word(text.substr(at, end - at));
    if (joins)
      cells.back() += " " + word;
    else
      cells.push_back(word);
    at = std::min(text.find_first_not_of(" \t", end), text.size());
    joins = at - end == 1;
  }
  return cells;
}

bool is_title(std::string_view text) { return text.starts_with("OSU ") && has(text, "Test"); }

class OsuLog {
 public:
  OsuLog(const ImportAnswers& answers, LogSink& sink) : answers_(answers), sink_(sink) {}

  void read(const Line& line) {
    const std::string_view untagged = without_launcher_tag(line.text), text = without_hash(untagged);
    if (text.empty()) return sink_.skip(line.number, "blank");
    if (is_title(text)) return begin_test(line.number, text);
    if (text.starts_with("DATA VALIDATION ERROR"))
      return sink_.bad(line.number, "the tool found wrong results: " + shown(text));
    if (const auto launch = read_launch_line(text)) return take_launch(line.number, *launch);
    const auto parts = words(text);
    if (parts.front() == "Size") return begin_table(line.number, text);
    if (!untagged.starts_with('#') && !columns_.empty() && looks_like_row(parts)) return read_row(line, parts);
    if (sink_.skip_unknown(line.number, line.text, "neither a title nor a row")) columns_.clear();
  }

 private:
  /// Whether the words may be a row of the table. It begins with a whole number, and has all its cells or a time. With
  /// all its cells and a time, the size need only begin like a number.
  [[nodiscard]] bool looks_like_row(const std::vector<std::string_view>& parts) const {
    const auto begins_like_number = [](std::string_view text) {
      return (text[0] >= '0' && text[0] <= '9') || text[0] == '-';
    };
    const bool has_all = parts.size() == columns_.size();
    const bool has_time = parts.size() < 2 || begins_like_number(parts[1]) || parts[1] == "nan" || parts[1] == "inf";
    if (parse_whole(parts.front())) return has_all || has_time;
    return has_all && has_time && begins_like_number(parts.front());
  }

  /// Whether the test may be of a collective that mc2 plans; without a title it may.
  [[nodiscard]] bool is_planned() const { return is_latency_ && (collective_ || title_.empty()); }

  void begin_test(std::int64_t line, std::string_view text) {
    columns_.clear();
    world_size_ = std::exchange(next_world_size_, 0);
    sink_.next_round();
    auto parts = words(text);
    if (parts.back().starts_with('v')) {
      sink_.fact("osu", parts.back().substr(1));
      parts.pop_back();
    }
    std::string name;
    for (std::size_t i = 2; i < parts.size() && parts[i] != "Latency" && parts[i] != "Test"; ++i)
      name += std::string(parts[i]);
    name = plain(name);
    if (name.starts_with("nonblocking")) name.erase(0, 11);
    if (name.ends_with("persistent")) name.resize(name.size() - 10);
    if (name == "alltoallpersonalizedexchange") name = "alltoall";
    if (name == "reducescatterblock") name = "reducescatter"; // both count the same total bytes
    collective_ = find_collective(name);
    is_latency_ = has(text, "Latency");
    title_ = "'" + shown(text) + "' ";
    sink_.skip(line, "title of a test");
  }

  void take_launch(std::int64_t line, const LaunchLine& launch) {
    next_world_size_ = launch.world_size.value_or(0);
    next_fault_ = ranks_fault(launch);
    sink_.skip(line, "command line of a test");
  }

  void begin_table(std::int64_t line, std::string_view text) {
    if (const std::string fault = std::exchange(next_fault_, {}); !fault.empty() && is_planned()) {
      columns_.clear();
      return sink_.bad(line, fault);
    }
    columns_ = heading_cells(text);
    time_column_ = find_time_column();
    ordered_columns_ = find_ordered_columns();
    validation_column_ = find_column("Validation");
    size_column_ = find_column("Transmit Size").value_or(0);
    for (const std::string& column : columns_) {
      const bool is_size = column.starts_with("Size") || column.starts_with("Transmit Size");
      const std::string fault = unit_fault(column, is_size ? "B" : "us");
      if (fault.empty() || column.find('%') != std::string::npos || column.find("B/s") != std::string::npos) continue;
      columns_.clear();
      return sink_.bad(line, fault);
    }
    if (const std::string fault = twin_fault(columns_); !fault.empty()) {
      columns_.clear();
      return sink_.bad(line, fault);
    }
    sink_.skip(line, "heading of a table");
  }

  [[nodiscard]] std::optional<std::size_t> find_column(std::string_view name) const {
    const auto found = std::ranges::find(columns_, name);
    return found == columns_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - columns_.begin()));
  }

  /// The column of the slowest rank's time where the table has one: a collective ends when its last rank does.
  [[nodiscard]] std::size_t find_time_column() const {
    for (const std::string_view name :
         {"Max Latency(us)", "Max Comm.(us)", "Pure Comm.(us)", "Avg Latency(us)", "Latency(us)", "Latency (us)"})
      if (const auto found = find_column(name)) return *found;
    return 0;
  }

  void read_row(const Line& line, const std::vector<std::string_view>& parts) {
    if (!is_planned()) return sink_.skip(line.number, title_ + std::string(kNotPlanned));
    if (const auto fault = row_fault(line, parts.size(), columns_.size())) return sink_.bad(line.number, *fault);
    if (time_column_ == 0) return sink_.bad(line.number, "the heading has no column 'Avg Latency(us)'");
    if (validation_column_ && plain(parts[*validation_column_]) != "pass")
      return sink_.bad(line.number, "validation failed: " + shown(parts[*validation_column_]));
    for (const std::size_t column : {std::size_t{0}, size_column_})
      if (!parse_whole(parts[column]))
        return sink_.bad(line.number, "'" + shown(parts[column]) + "' is no size in bytes");
    const auto size = parse_whole(parts[size_column_]);
    const auto time = parse_us(parts[time_column_]);
    if (!time) return sink_.bad(line.number, "'" + shown(parts[time_column_]) + "' is no number");
    for (const auto& [shorter, longer] : ordered_columns_)
      if (const std::string fault = order_fault({columns_[shorter], parts[shorter]}, {columns_[longer], parts[longer]});
          !fault.empty())
        return sink_.bad(line.number, fault);
    if (*size == 0) return sink_.skip(line.number, "a message of 0 bytes");
    take(line.number, *size, *time);
  }

  /// The columns of the ranks' least, mean and largest time, which -f prints, in pairs of the shorter and the longer.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> find_ordered_columns() const {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (const auto& [shorter, longer] : {std::pair{"Min Latency(us)", "Avg Latency(us)"},
                                          {"Avg Latency(us)", "Max Latency(us)"},
                                          {"Min Comm.(us)", "Pure Comm.(us)"},
                                          {"Pure Comm.(us)", "Max Comm.(us)"}}) {
      const auto less = std::ranges::find(columns_, shorter), more = std::ranges::find(columns_, longer);
      if (less != columns_.end() && more != columns_.end())
        pairs.emplace_back(less - columns_.begin(), more - columns_.begin());
    }
    return pairs;
  }

  void take(std::int64_t line, std::int64_t size, std::chrono::nanoseconds time) {
    const auto collective = sink_.collective_of(line, collective_, answers_);
    if (!collective) return;
    const int world_size = world_size_ > 0 ? world_size_ : answers_.world_size.value_or(0);
    const auto bytes = full_array_bytes(size, meaning_of(*collective), world_size);
    if (!bytes && world_size == 0) {
      sink_.ask(kAskRanks);
      return sink_.skip(line, "the size is one rank's part and the log does not say how many ranks there were");
    }
    sink_.take(line,
               {.collective = *collective, .message_bytes = bytes.value_or(0), .world_size = world_size_, .time = time},
               std::string(planner::to_string(*collective)) + ", " + columns_[time_column_] +
                   (size_column_ > 0 ? ", " + columns_[size_column_] : ""));
  }

  const ImportAnswers& answers_;
  LogSink& sink_;
  std::vector<std::string> columns_; ///< empty outside a table
  std::size_t time_column_ = 0;
  std::size_t size_column_ = 0; ///< the bytes that were moved: of derived datatypes, fewer than the first column says
  std::vector<std::pair<std::size_t, std::size_t>> ordered_columns_; ///< the first time is at most the second
  std::optional<std::size_t> validation_column_;
  std::optional<Collective> collective_;
  bool is_latency_ = true;
  std::string next_fault_;  ///< why that command line has no collective; bad only where a table follows
  int next_world_size_ = 0; ///< the ranks that a command line states for the test after it
  int world_size_ = 0;      ///< the ranks of the test that is being read; 0 if no command line stated them
  std::string title_;
};

} // namespace
} // namespace osu

bool detect_osu(std::string_view head) {
  using namespace osu;
  for (std::size_t at = head.find("OSU "); at != std::string_view::npos; at = head.find("OSU ", at + 1)) {
    const std::size_t begin = head.rfind('\n', at) + 1, end = std::min(head.find('\n', at), head.size());
    if (is_title(without_hash(without_launcher_tag(head.substr(begin, end - begin))))) return true;
  }
  return false;
}

Result<void> read_osu(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  return read_lines(reader, osu::OsuLog(answers, sink));
}

} // namespace mc2::profiler
