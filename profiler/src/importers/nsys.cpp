#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "csv_columns.hpp"
#include "event_name.hpp"
#include "fields.hpp"
#include "formats.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"

namespace mc2::profiler {
namespace nsys {
namespace {

enum Column : std::size_t { kDuration, kDevice, kName };

const std::vector<WantedColumn>& columns() {
  static const std::vector<WantedColumn> kColumns{
      {{"duration"}, "'Duration (ns)'", true}, {{"device"}, ""}, {{"name"}, "'Name'", true}};
  return kColumns;
}

/// The heading of a report that names each kernel's start, or each kernel's statistics, as CSV.
bool is_trace(std::string_view line) {
  return line.find("Start (") == 0 && line.find(",Duration (") != std::string_view::npos &&
         line.find(",Name") != std::string_view::npos;
}
bool is_summary(std::string_view line) {
  return line.find("Total Time (") != std::string_view::npos && line.find("Instances") != std::string_view::npos;
}
/// The same report as a table for people, whose columns are parted by blanks.
bool is_printed(std::string_view line) {
  return line.find("Start (") != std::string_view::npos && line.find("Duration (") != std::string_view::npos &&
         line.find(',') == std::string_view::npos;
}

/// What the tool says before a report.
bool is_preamble(std::string_view line) {
  constexpr std::array<std::string_view, 6> kBegin{"NOTICE",      "It is assumed ", "Consider using ",
                                                   "Generating ", "Processing ",    "**"};
  return line.empty() || std::ranges::any_of(kBegin, [&](std::string_view begin) { return line.starts_with(begin); });
}

/// Whether the text begins with such a heading, behind the preamble: other programs' output may have reports behind it.
template <typename Holds>
bool begins_with(std::string_view text, Holds holds) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    if (holds(line)) return true;
    if (end == std::string_view::npos || !is_preamble(line)) return false;
    text.remove_prefix(end + 1);
  }
  return false;
}

/// Nanoseconds of the unit that the heading gives its durations; 0 for another.
double unit_ns(std::string_view heading) {
  constexpr std::string_view kBefore = "Duration (";
  const std::size_t at = heading.find(kBefore) + kBefore.size();
  const std::string_view unit = heading.substr(at, heading.find(')', at) - at);
  constexpr std::array kUnits{std::pair{"ns", 1.0}, std::pair{"us", 1e3}, std::pair{"ms", 1e6}, std::pair{"s", 1e9}};
  for (const auto& [name, ns] : kUnits)
    if (unit == name) return ns;
  return 0;
}

/// "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", since NCCL 2.19; "ncclKernel_AllReduce_RING_LL_Sum_float(...)".
std::optional<std::string_view> nccl_function(std::string_view name) {
  for (const std::string_view begin : {"ncclDevKernel_", "ncclKernel_"})
    if (name.starts_with(begin)) {
      name.remove_prefix(begin.size());
      return name.substr(0, name.find_first_of("_("));
    }
  return std::nullopt;
}

class KernelTrace {
 public:
  /// @param log  names it, so that another log's runs are others
  KernelTrace(const ImportAnswers& answers, std::uint64_t log, LogSink& sink)
      : answers_(answers), log_(log), sink_(sink), row_(columns()) {}

  void read(const Line& line) {
    const std::string_view text = trimmed(line.text);
    if (is_trace(text)) return begin(line);
    if (!has_heading_ || text.empty()) return sink_.skip(line.number, "before the heading, or blank");
    if (const auto fault = row_.read_row(line)) return sink_.bad(line.number, *fault);
    const std::string_view name = bare(row_.cell(kName));
    const auto function = nccl_function(name);
    if (!function) return skip_other(line.number, name);
    const auto collective = find_collective(*function);
    if (!collective) return sink_.skip(line.number, shown(*function) + " is no collective that mc2 plans");
    take(line.number, *collective);
  }

 private:
  void begin(const Line& line) {
    unit_ns_ = unit_ns(line.text);
    const auto begun = row_.read_heading(line.text);
    has_heading_ = begun.ok() && unit_ns_ > 0;
    if (has_heading_) return sink_.skip(line.number, "heading");
    sink_.bad(line.number, begun ? "the durations' unit is none of ns, us, ms, s" : begun.error().message);
  }

  void skip_other(std::int64_t line, std::string_view name) {
    const std::string word = plain(name);
    const bool is_matmul = word.find("gemm") != std::string::npos || word.starts_with("nvjet");
    sink_.skip(line, is_matmul ? "a matmul's kernel, whose name tells its tile and not m, n and k"
                               : "a kernel of another operator");
  }

  [[nodiscard]] std::optional<std::chrono::nanoseconds> duration(std::string_view cell) const {
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size()) return std::nullopt;
    return from_us(value * unit_ns_ / planner::kNsPerUs);
  }

  /// Each with an event of its own: a kernel that waits for other ranks runs, and nothing tells which runs are one.
  void take(std::int64_t line, planner::Collective collective) {
    const auto time = duration(row_.cell(kDuration));
    if (!time || time->count() <= 0)
      return sink_.bad(line, "'" + shown(row_.cell(kDuration)) + "' is no duration above 0");
    if (!answers_.message_bytes) {
      sink_.ask("the collectives' bytes (--bytes), which kernels do not tell");
      return sink_.skip(line, "without the size of its array");
    }
    const std::string_view device = bare(row_.cell(kDevice));
    if (!device.empty()) sink_.fact("device", trimmed(device.substr(0, device.rfind('('))));
    Timing timing{.collective = collective, .message_bytes = *answers_.message_bytes, .time = *time};
    timing.event = event_name(log_, ++run_count_);
    sink_.take(line, timing, std::string(planner::to_string(collective)) + ", size as said");
  }

  const ImportAnswers& answers_;
  std::uint64_t log_;
  LogSink& sink_;
  CsvColumns row_;
  double unit_ns_ = 0;
  bool has_heading_ = false;
  std::uint64_t run_count_ = 0;
};

} // namespace
} // namespace nsys

bool detect_nsys(std::string_view head) {
  using namespace nsys;
  return begins_with(head,
                     [](std::string_view line) { return is_trace(line) || is_summary(line) || is_printed(line); });
}

Result<void> read_nsys(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  using namespace nsys;
  if (!begins_with(reader.head(), is_trace))
    return Error{ErrorCode::Malformed, "",
                 "is a report of Nsight Systems that does not list each kernel as CSV; write that with: nsys stats "
                 "--report cuda_gpu_trace --format csv"};
  KernelTrace trace(answers, group_name(reader.head()), sink);
  for (Line line; reader.next(line);) trace.read(line);
  return {};
}

} // namespace mc2::profiler
