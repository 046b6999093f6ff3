#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "csv_columns.hpp"
#include "event_name.hpp"
#include "fields.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/importer.hpp"
#include "pytorch_matmul.hpp"

namespace mc2::profiler {
namespace nsys {
namespace {

enum Column : std::size_t { kStart, kDuration, kDevice, kName };

const std::vector<WantedColumn>& columns() {
  static const std::vector<WantedColumn> kColumns{{{"start"}, "'Start (ns)'", true},
                                                  {{"duration"}, "'Duration (ns)'", true},
                                                  {{"device"}, ""},
                                                  {{"name"}, "'Name'", true}};
  return kColumns;
}

/// The CSV heading of a report with each kernel's start (trace), or with each kernel's statistics (summary).
bool is_trace(std::string_view line) {
  return line.find("Start (") == 0 && has(line, ",Duration (") && has(line, ",Name");
}
bool is_summary(std::string_view line) {
  return has(line, "Total Time (") && (has(line, "Instances") || has(line, "Num Calls"));
}
/// The heading of the trace report printed as a table for people, with blanks between the columns.
bool is_printed(std::string_view line) { return has(line, "Start (") && has(line, "Duration (") && !has(line, ","); }

/// Whether the line is one of those that the tool prints before a report.
bool is_preamble(std::string_view line) {
  constexpr std::array<std::string_view, 7> kBegin{
      "NOTICE", "It is assumed ", "Consider using ", "Generating ", "Processing ", "SKIPPED: ", "**"};
  return line.empty() || std::ranges::any_of(kBegin, [&](std::string_view begin) { return line.starts_with(begin); });
}

/// Whether the line begins another report, or is blank. Rows begin with a number.
bool is_between_reports(std::string_view line) {
  const bool is_row = !line.empty() && line.front() >= '0' && line.front() <= '9';
  return !is_row && (is_preamble(line) || is_summary(line) || is_printed(line));
}

/// Whether the text begins with a heading after at most the preamble. Output of other programs may contain reports,
/// too, but only later.
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

/// Whether any line of the text is the heading of a trace.
bool has_trace(std::string_view text) {
  while (!text.empty())
    if (is_trace(take_part(text, '\n'))) return true;
  return false;
}

/// Nanoseconds per unit that the heading states after `column`, e.g. "Duration ("; 0 for an unknown unit.
double unit_ns(std::string_view heading, std::string_view column) {
  const std::size_t at = heading.find(column) + column.size();
  const std::string_view unit = heading.substr(at, heading.find(')', at) - at);
  constexpr std::array kUnits{std::pair{"ns", 1.0}, std::pair{"us", 1e3}, std::pair{"ms", 1e6}, std::pair{"s", 1e9}};
  for (const auto& [name, ns] : kUnits)
    if (unit == name) return ns;
  return 0;
}

/// The collective's name in a kernel's name: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)" since NCCL 2.19,
/// "ncclKernel_AllReduce_RING_LL_Sum_float(...)" before; of its symmetric kernels
/// "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(...)" since 2.28, "ncclSymDevKernel_..." before. A range's
/// name and a slash may precede it.
std::optional<std::string_view> nccl_function(std::string_view name) {
  if (const std::size_t range = name.find("/nccl"); range != std::string_view::npos) name.remove_prefix(range + 1);
  for (const std::string_view begin : {"ncclDevKernel_", "ncclKernel_", "ncclSymkDevKernel_", "ncclSymDevKernel_"})
    if (name.starts_with(begin)) {
      name.remove_prefix(begin.size());
      return name.substr(0, name.find_first_of("_("));
    }
  return std::nullopt;
}

/// The PyTorch operator in whose range a kernel was launched.
struct RangedOperator {
  std::string_view name;
  std::optional<std::int64_t> number;              ///< tells operators of equal shapes apart
  std::vector<std::vector<std::int64_t>> operands; ///< dimensions of each operand; empty where not stated
};

constexpr std::size_t kMaxDevices = 4096;
constexpr std::size_t kMaxHeld = 64;   ///< most collectives of a device at once
constexpr std::size_t kMaxListed = 16; ///< most operands of an operator, most dimensions of an operand

/// Parses "[[4096, 3072], [3072, 8192]]" and ignores the rest of the text. Operands that are no tensors are "[]".
std::vector<std::vector<std::int64_t>> parse_operands(std::string_view text) {
  std::vector<std::vector<std::int64_t>> operands;
  if (!text.starts_with('[')) return operands;
  text.remove_prefix(1);
  while (text.starts_with('[') && operands.size() < kMaxListed) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return {};
    operands.emplace_back();
    for (const std::string_view part : split(text.substr(1, end - 1), ','))
      if (const auto size = parse_whole(part); size && operands.back().size() < kMaxListed)
        operands.back().push_back(*size);
    text.remove_prefix(end + 1);
    while (text.starts_with(',') || text.starts_with(' ')) text.remove_prefix(1);
  }
  return operands;
}

/// The text after `key` up to a comma, a slash or the end.
std::string_view value_behind(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  return trimmed(text.substr(0, text.find_first_of(",/")));
}

/// Reads a range as PyTorch names it, joined by the report with a kernel's name:
/// "aten::mm, op_id = 12, sizes = [[4096, 3072], [3072, 8192]], input_op_ids = [(10,0)]/nvjet_tst_128x256(...)".
RangedOperator read_range(std::string_view name) {
  RangedOperator found{.name = trimmed(name.substr(0, name.find_first_of(",/"))), .number = {}, .operands = {}};
  found.number = parse_whole(value_behind(name, ", op_id = "));
  constexpr std::string_view kSizes = ", sizes = ";
  if (const std::size_t at = name.find(kSizes); at != std::string_view::npos)
    found.operands = parse_operands(name.substr(at + kSizes.size()));
  return found;
}

class KernelTrace {
 public:
  /// @param log  names the log, so that runs of other logs get other names
  KernelTrace(const ImportAnswers& answers, std::uint64_t log, LogSink& sink)
      : answers_(answers), log_(log), sink_(sink), row_(columns()) {}

  void read(const Line& line) {
    const std::string_view text = trimmed(line.text);
    if (is_trace(text)) return begin(line);
    if (is_between_reports(text)) return end_table(line.number, text.empty());
    if (!has_heading_) return sink_.skip(line.number, "row of another report");
    if (const auto fault = row_.read_row(line)) return sink_.bad(line.number, *fault);
    const std::string_view name = bare(row_.cell(kName));
    const auto function = nccl_function(name);
    const auto ranged = function ? std::nullopt : std::optional(read_range(name));
    const auto first = ranged ? find_first_operand(ranged->name) : std::nullopt;
    if (!function && !first) return read_other(line.number, name);
    const auto kernel = read_kernel(line.number);
    if (!kernel) return;
    if (function) return read_collective(*kernel, *function);
    read_matmul(*kernel, *ranged, *first);
  }

  void finish() {
    for (auto& [device, lane] : lanes_) {
      end_matmul(lane);
      release_collectives(lane, INT64_MAX);
    }
  }

 private:
  /// The kernel of the current row. Times in ns.
  struct Kernel {
    std::int64_t line = 0, start = 0, end = 0;
  };
  /// A matmul whose last kernel may still come.
  struct Matmul {
    std::int64_t line = 0, number = 0, end = 0;
    Timing timing;
    bool is_alone = true;
  };
  /// A collective beside which a matmul may still start.
  struct HeldCollective {
    Kernel kernel;
    planner::Collective collective = planner::Collective::AllReduce;
    bool is_alone = true;
  };
  struct Lane {
    std::optional<Matmul> matmul;
    std::vector<HeldCollective> held;
    std::int64_t last_number = -1;                                   ///< number of the last matmul that has ended
    std::int64_t collective_end = INT64_MIN, matmul_end = INT64_MIN; ///< the latest so far
  };

  /// Another report or another file may follow. A blank line ends no table.
  void end_table(std::int64_t line, bool is_blank) {
    has_heading_ = has_heading_ && is_blank;
    sink_.skip(line, is_blank ? "blank" : "before a report");
  }

  void begin(const Line& line) {
    finish();
    lanes_.clear();
    last_start_ = INT64_MIN;
    start_unit_ns_ = unit_ns(line.text, "Start (");
    duration_unit_ns_ = unit_ns(line.text, "Duration (");
    const auto begun = row_.read_heading(line.text);
    has_heading_ = begun.ok() && start_unit_ns_ > 0 && duration_unit_ns_ > 0;
    if (has_heading_) return sink_.skip(line.number, "heading");
    sink_.bad(line.number, begun ? "the times' unit is none of ns, us, ms, s" : begun.error().message);
  }

  /// Skips a kernel of no operator that is taken. A matmul's slows what runs beside it all the same.
  void read_other(std::int64_t line, std::string_view name) {
    const std::size_t range = name.rfind('/');
    if (!is_matmul_kernel(range == std::string_view::npos ? name : name.substr(range + 1)))
      return sink_.skip(line, "a kernel of another operator");
    const auto kernel = read_kernel(line);
    if (!kernel) return;
    Lane& lane = lanes_[device()];
    release_collectives(lane, kernel->start);
    for (HeldCollective& held : lane.held) held.is_alone = false;
    if (lane.matmul && kernel->start < lane.matmul->end) lane.matmul->is_alone = false;
    lane.matmul_end = std::max(lane.matmul_end, kernel->end);
    sink_.skip(line, range == std::string_view::npos
                         ? "a matmul's kernel, whose name tells its tile and not m, n and k; with PyTorch's ranges "
                           "(cuda_gpu_trace:nvtx-name) it does"
                         : "a matmul's kernel of another operator");
  }

  /// The kernel of the current row. Nothing, and the row is bad, without a start and a duration above 0.
  [[nodiscard]] std::optional<Kernel> read_kernel(std::int64_t line) {
    const auto start = nanoseconds(row_.cell(kStart), start_unit_ns_);
    const auto time = nanoseconds(row_.cell(kDuration), duration_unit_ns_);
    Kernel kernel{line, 0, 0};
    if (!time || time->count() <= 0 || time->count() > kMaxTimeNs)
      sink_.bad(line, "'" + shown(row_.cell(kDuration)) + "' is no duration above 0 and up to 11 days");
    else if (!start || __builtin_add_overflow(start->count(), time->count(), &kernel.end))
      sink_.bad(line, "'" + shown(row_.cell(kStart)) + "' is no start");
    else if (start->count() < last_start_)
      sink_.bad(line, "starts before the row above; the report has them in the order of their start");
    else if (lanes_.size() == kMaxDevices && !lanes_.contains(device()))
      sink_.bad(line, "is of the 4097th device");
    else {
      kernel.start = last_start_ = start->count();
      const std::string_view device = bare(row_.cell(kDevice));
      if (!device.empty()) sink_.fact("device", trimmed(device.substr(0, device.rfind('('))));
      return kernel;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::string device() const { return std::string(bare(row_.cell(kDevice))); }

  void read_collective(const Kernel& kernel, std::string_view function) {
    Lane& lane = lanes_[device()];
    release_collectives(lane, kernel.start);
    lane.collective_end = std::max(lane.collective_end, kernel.end);
    if (lane.matmul && kernel.start < lane.matmul->end) lane.matmul->is_alone = false;
    const auto collective = find_collective(function);
    if (!collective) return sink_.skip(kernel.line, shown(function) + " is no collective that mc2 plans");
    if (lane.held.size() == kMaxHeld) return sink_.skip(kernel.line, "one of more than 64 collectives at once");
    lane.held.push_back({kernel, *collective, kernel.start >= lane.matmul_end});
  }

  /// Takes the collectives that ended before the next kernel starts, unless a matmul ran beside them.
  void release_collectives(Lane& lane, std::int64_t next_start) {
    std::erase_if(lane.held, [&](const HeldCollective& held) {
      if (held.kernel.end > next_start) return false;
      if (held.is_alone)
        take_collective(held.kernel, held.collective);
      else
        sink_.skip(held.kernel.line, "collective beside a matmul, which slows it");
      return true;
    });
  }

  /// Adds a kernel to its matmul. The time of a matmul is the sum over all its kernels.
  void read_matmul(const Kernel& kernel, const RangedOperator& ranged, std::size_t first) {
    Lane& lane = lanes_[device()];
    release_collectives(lane, kernel.start);
    for (HeldCollective& held : lane.held) held.is_alone = false;
    const bool is_alone = kernel.start >= lane.collective_end;
    if (lane.matmul && ranged.number == lane.matmul->number && has_sizes(ranged, first, lane.matmul->timing)) {
      sink_.skip(kernel.line, "a further kernel of the matmul of line " + std::to_string(lane.matmul->line));
      Matmul& matmul = *lane.matmul;
      const std::int64_t time_ns = matmul.timing.time.count() + (kernel.end - kernel.start);
      matmul.timing.time = std::chrono::nanoseconds(std::min(time_ns, 2 * kMaxTimeNs)); // no overflow; still refused
      matmul.is_alone = matmul.is_alone && is_alone && kernel.start >= matmul.end;
      matmul.end = std::max(matmul.end, kernel.end);
    } else if (ranged.number && *ranged.number == lane.last_number) {
      sink_.skip(kernel.line, "a kernel of a matmul that another operator's came between");
    } else {
      const bool is_apart = kernel.start >= lane.matmul_end;
      const bool shares_number = lane.matmul && ranged.number == lane.matmul->number; // of other sizes
      if (lane.matmul && (!is_apart || shares_number)) lane.matmul->is_alone = false;
      end_matmul(lane);
      begin_matmul(lane, kernel, ranged, first, is_alone && is_apart && !shares_number);
    }
    lane.matmul_end = std::max(lane.matmul_end, kernel.end);
  }

  /// Whether the operator multiplies matrices of the timing's sizes. Operators of several processes may have one
  /// number.
  [[nodiscard]] static bool has_sizes(const RangedOperator& ranged, std::size_t first, const Timing& timing) {
    if (ranged.operands.size() < first + 2) return false;
    const auto &a = ranged.operands[first], &b = ranged.operands[first + 1];
    return !find_operands_fault(a, b) && timing.m == a[0] && timing.n == b[1] && timing.k == a[1];
  }

  void begin_matmul(Lane& lane, const Kernel& kernel, const RangedOperator& ranged, std::size_t first, bool is_alone) {
    if (!ranged.number) return sink_.skip(kernel.line, "matmul whose operator has no number (op_id)");
    if (ranged.operands.size() < first + 2)
      return sink_.skip(kernel.line, "matmul without shapes; profile with record_shapes=True");
    const auto &a = ranged.operands[first], &b = ranged.operands[first + 1];
    if (const auto fault = find_operands_fault(a, b))
      return fault->is_bad ? sink_.bad(kernel.line, fault->why) : sink_.skip(kernel.line, fault->why);
    if (!answers_.dtype) {
      sink_.ask("the matmuls' type (--dtype), which neither kernels nor ranges tell");
      return sink_.skip(kernel.line, "matmul without its type");
    }
    if (!multiplies(ranged.name, *answers_.dtype))
      return sink_.skip(kernel.line, "matmul of another type than --dtype says");
    const Timing timing{.component = planner::Component::Matmul,
                        .m = a[0],
                        .n = b[1],
                        .k = a[1],
                        .dtype = answers_.dtype,
                        .time = std::chrono::nanoseconds(kernel.end - kernel.start)};
    lane.matmul = Matmul{kernel.line, *ranged.number, kernel.end, timing, is_alone};
  }

  void end_matmul(Lane& lane) {
    if (!lane.matmul) return;
    lane.last_number = lane.matmul->number;
    if (lane.matmul->is_alone)
      sink_.take(lane.matmul->line, lane.matmul->timing, "matmul");
    else
      sink_.skip(lane.matmul->line, "matmul beside another kernel, or with another one's number");
    lane.matmul.reset();
  }

  [[nodiscard]] static std::optional<std::chrono::nanoseconds> nanoseconds(std::string_view cell, double unit_ns) {
    const auto value = number_in<double>(cell);
    if (!value) return std::nullopt;
    return from_us(*value * unit_ns / planner::kNsPerUs);
  }

  /// Takes a collective with an event of its own. The kernel's time includes waiting for other ranks, and nothing tells
  /// which kernels of other ranks belong to the same run.
  void take_collective(const Kernel& kernel, planner::Collective collective) {
    if (!answers_.message_bytes) {
      sink_.ask("the collectives' bytes (--bytes), which kernels do not tell");
      return sink_.skip(kernel.line, "without the size of its array");
    }
    Timing timing{.collective = collective,
                  .message_bytes = *answers_.message_bytes,
                  .time = std::chrono::nanoseconds(kernel.end - kernel.start)};
    timing.event = event_name(log_, ++run_count_);
    sink_.take(kernel.line, timing, std::string(planner::to_string(collective)) + ", size as said");
  }

  const ImportAnswers& answers_;
  std::uint64_t log_;
  LogSink& sink_;
  CsvColumns row_;
  double start_unit_ns_ = 0, duration_unit_ns_ = 0;
  bool has_heading_ = false;
  std::uint64_t run_count_ = 0;
  std::int64_t last_start_ = INT64_MIN;
  std::map<std::string, Lane> lanes_; ///< keyed by device
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
  if (!has_trace(reader.head()))
    return Error{ErrorCode::Malformed, "",
                 "is a report of Nsight Systems that does not list each kernel as CSV; write that with: nsys stats "
                 "--report cuda_gpu_trace:nvtx-name --format csv"};
  KernelTrace trace(answers, group_name(reader.head()), sink);
  for (Line line; reader.next(line);) trace.read(line);
  trace.finish();
  return {};
}

} // namespace mc2::profiler
