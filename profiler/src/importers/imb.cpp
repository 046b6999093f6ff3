#include <algorithm>
#include <string>

#include "fields.hpp"
#include "full_array.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {
namespace imb {
namespace {

using planner::Collective;

constexpr std::string_view kTitle = " MPI Benchmarks ";

/// The collective of a benchmark, and what the benchmark counts as bytes (IMB_reduce_scatter.c,
/// IMB_reduce_scatter_block.c, IMB_allgather.c, IMB_alltoall.c).
struct Benchmark {
  std::optional<Collective> collective;
  SizeMeaning meaning = SizeMeaning::FullArray;
};

/// Names of non-blocking benchmarks begin with I; they end with _pure where no computation runs beside.
Benchmark benchmark_of(std::string_view text) {
  std::string name = plain(text);
  if (name.ends_with("pure")) name.resize(name.size() - 4);
  if (name.starts_with('i')) name.erase(0, 1);
  const bool is_block = name == "reducescatterblock";
  const auto collective = is_block ? std::optional(Collective::ReduceScatter) : find_collective(name);
  const bool is_part = is_block || collective == Collective::AllGather || collective == Collective::AllToAll;
  return {collective, is_part ? SizeMeaning::PerRank : SizeMeaning::FullArray};
}

class ImbLog {
 public:
  explicit ImbLog(LogSink& sink) : sink_(sink) {}

  void read(const Line& line) {
    const std::string_view text = trimmed(without_launcher_tag(line.text));
    const auto parts = words(text);
    if (parts.empty()) return sink_.skip(line.number, "blank");
    if (parts.front() == "#bytes") return begin_table(line.number, parts);
    if (text.starts_with('#')) return read_comment(line.number, text, parts);
    if (parse_whole(parts.front()) && !columns_.empty()) return read_row(line, parts);
    if (sink_.skip_unknown(line.number, line.text, "neither a title nor a row")) columns_.clear();
  }

 private:
  void read_comment(std::int64_t line, std::string_view text, const std::vector<std::string_view>& parts) {
    if (const std::size_t title = text.find(kTitle); title != std::string_view::npos) {
      const std::string_view version = text.substr(title + kTitle.size());
      sink_.fact("imb", version.substr(0, version.find(',')));
    }
    if (parts.size() >= 3 && parts[1] == "Benchmarking") return begin_test(line, parts[2]);
    // "# #processes = 4"; with -map "# #processes = 4; rank order (rowwise):"; in old versions "# ( #processes = 4 )".
    if (const auto at = std::ranges::find(parts, "#processes"); parts.end() - at > 2 && at[1] == "=") {
      const auto count = parse_whole(at[2].substr(0, at[2].find(';')));
      if (!count || *count < 1) return sink_.bad(line, "is no number of processes");
      world_size_ = static_cast<int>(std::min<std::int64_t>(*count, planner::kMaxWorldSize + 1));
    }
    if (sink_.skip_unknown(line, text, "comment")) columns_.clear();
  }

  void begin_test(std::int64_t line, std::string_view name) {
    columns_.clear();
    world_size_ = 0;
    name_ = shown(name);
    benchmark_ = benchmark_of(name);
    sink_.next_round();
    sink_.skip(line, "title of a test");
  }

  /// Chooses the time column: t_max, the slowest rank's time; or else t_pure, the time of a non-blocking benchmark
  /// without computation beside it.
  void begin_table(std::int64_t line, const std::vector<std::string_view>& parts) {
    columns_.assign(parts.begin(), parts.end());
    if (const std::string fault = twin_fault(columns_); !fault.empty()) {
      columns_.clear();
      return sink_.bad(line, fault);
    }
    time_column_ = 0;
    for (const std::string_view name : {"t_pure[usec]", "t_max[usec]"})
      if (const auto found = std::ranges::find(columns_, name); found != columns_.end())
        time_column_ = static_cast<std::size_t>(found - columns_.begin());
    sink_.skip(line, "heading of a table");
  }

  void read_row(const Line& line, const std::vector<std::string_view>& parts) {
    if (!benchmark_.collective) return sink_.skip(line.number, "'" + name_ + "' is no collective that mc2 plans");
    if (has(line.text, "out-of-mem") || has(line.text, "overflow") || has(line.text, "time-out"))
      return sink_.skip(line.number, "was not measured: " + shown(parts[1]));
    if (const auto fault = row_fault(line, parts.size(), columns_.size())) return sink_.bad(line.number, *fault);
    if (time_column_ == 0) return sink_.bad(line.number, "the heading has no column 't_max[usec]' or 't_pure[usec]'");
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i] == "defects" && parse_us(parts[i]).value_or(std::chrono::nanoseconds(1)).count() != 0)
        return sink_.bad(line.number, "the check of its result failed: " + shown(parts[i]) + " defects");
    take(line.number, parts);
  }

  /// What is wrong with the processes' least, mean and largest time; empty where nothing is.
  [[nodiscard]] std::string spread_fault(const std::vector<std::string_view>& parts) const {
    const auto cell = [&](std::string_view name) {
      const auto at = std::ranges::find(columns_, name);
      return NamedCell{name, at == columns_.end() ? "" : parts[static_cast<std::size_t>(at - columns_.begin())]};
    };
    const NamedCell least = cell("t_min[usec]"), mean = cell("t_avg[usec]"), most = cell("t_max[usec]");
    for (std::string fault : {order_fault(least, mean), order_fault(mean, most), order_fault(least, most)})
      if (!fault.empty()) return fault;
    return {};
  }

  void take(std::int64_t line, const std::vector<std::string_view>& parts) {
    const auto time = parse_us(parts[time_column_]);
    if (!time) return sink_.bad(line, "'" + shown(parts[time_column_]) + "' is no number");
    if (const std::string fault = spread_fault(parts); !fault.empty()) return sink_.bad(line, fault);
    const std::int64_t size = *parse_whole(parts.front());
    if (size == 0) return sink_.skip(line, "a message of 0 bytes");
    if (world_size_ == 0) return sink_.bad(line, "no line '# #processes = ' stands before this table");
    if (world_size_ == 1) return sink_.skip(line, "of one process");
    if (world_size_ > planner::kMaxWorldSize)
      return sink_.skip(line, "of more than " + std::to_string(planner::kMaxWorldSize) + " processes");
    const auto bytes = full_array_bytes(size, benchmark_.meaning, world_size_);
    if (!bytes) return sink_.bad(line, "'" + shown(parts.front()) + "' is no size in bytes");
    sink_.take(
        line, {.collective = *benchmark_.collective, .message_bytes = *bytes, .world_size = world_size_, .time = *time},
        std::string(planner::to_string(*benchmark_.collective)) + ", " + columns_[time_column_]);
  }

  LogSink& sink_;
  std::vector<std::string> columns_; ///< empty outside a table
  std::size_t time_column_ = 0;
  Benchmark benchmark_;
  std::string name_;
  int world_size_ = 0; ///< ranks of the table; 0: not stated yet
};

} // namespace
} // namespace imb

bool detect_imb(std::string_view head) {
  const auto is_in_comment = [head](std::string_view text) {
    const std::size_t at = head.find(text);
    if (at == std::string_view::npos) return false;
    const std::size_t begin = head.rfind('\n', at) + 1;
    return trimmed(without_launcher_tag(head.substr(begin, at + text.size() - begin))).starts_with('#');
  };
  return is_in_comment(imb::kTitle) || (is_in_comment("# Benchmarking ") && has(head, "#repetitions"));
}

Result<void> read_imb(LogReader& reader, const ImportAnswers&, LogSink& sink) {
  return read_lines(reader, imb::ImbLog(sink));
}

} // namespace mc2::profiler
