#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "csv_columns.hpp"
#include "event_name.hpp"
#include "fields.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "matmul_shape.hpp"
#include "mc2/profiler/importer.hpp"
#include "msprof_kernels.hpp"
#include "msprof_names.hpp"

namespace mc2::profiler {
namespace msprof_kernels {
namespace {

using planner::Collective;
using planner::Component;

using Column = MsprofKernel::Cell;
using enum MsprofKernel::Cell;

const std::vector<WantedColumn>& columns() {
  static const std::vector<WantedColumn> kColumns{
      {{"opname", "name"}, "'Op Name' or 'Name'", true},
      {{"optype", "type"}, ""},
      {{"taskduration", "duration"}, "'Task Duration(us)' or 'Duration(us)'", true, true},
      {{"inputshapes", "inputshape"}, ""},
      {{"inputdatatypes", "inputdatatype"}, ""},
      {{"outputshapes", "outputshape"}, ""},
      {{"inputformats", "inputformat"}, ""},
      {{"outputformats", "outputformat"}, ""},
      {{"deviceid"}, ""},
      {{"streamid"}, ""},
      {{"taskstarttime", "starttime"}, "", false, true},
      {{"taskid"}, ""}};
  return kColumns;
}

constexpr std::size_t kMaxDevices = 1024;
/// A collective that follows a matmul by more rows than this belongs to another operator.
constexpr std::int64_t kMaxNeighbourRows = 64;
/// No device's links move a full array faster. A size that implies a higher rate belongs to another operator.
constexpr double kMostBytesPerUs = 2e6;
constexpr const char* kNoShapes = "has no shapes and element type that give its size";
constexpr std::string_view kTiled = "a matmul whose A or product is tiled (FRACTAL_NZ), which hides its number of rows";
constexpr const char* kUnreadable = "may be on a row that cannot be read";

/// The rows of one device that are neighbours of its next communication row.
struct Neighbours {
  std::int64_t row_count = 0;                                       ///< rows of the device so far
  std::int64_t before_row = 0;                                      ///< row of `before`
  std::optional<Timing> before;                                     ///< the last matmul, if its size is known
  std::string why_none = "no matmul stands before this collective"; ///< why `before` is empty
  std::vector<std::pair<std::int64_t, Timing>> waiting_gathers;     ///< lines of all-gathers, whose matmul comes later
  std::int64_t last_line = 0;                                       ///< last matmul or collective with a start
  std::chrono::nanoseconds last_start{0};                           ///< start of that row
};

/// Bytes of a collective's full array: the A of the matmul beside an all-gather, else its product.
std::optional<std::int64_t> bytes_beside(Collective collective, const Timing& matmul) {
  if (!matmul.dtype) return std::nullopt;
  const bool is_a = collective == Collective::AllGather;
  // Products of i8 are sums of 32 bits, which the operators scale to bf16 (planner::product_type).
  const auto type = !is_a && *matmul.dtype == planner::DType::I8 ? planner::DType::Bf16 : *matmul.dtype;
  std::int64_t elements = 0, bytes = 0;
  const bool is_too_large = __builtin_mul_overflow(matmul.m, is_a ? matmul.k : matmul.n, &elements) ||
                            __builtin_mul_overflow(elements, planner::size_bytes(type), &bytes);
  return is_too_large ? std::nullopt : std::optional(bytes);
}

class KernelLog {
 public:
  /// @param log  names the log, so that runs of other logs get other names
  KernelLog(const ImportAnswers& answers, std::uint64_t log, LogSink& sink)
      : answers_(answers), log_(log), sink_(sink), row_(columns()) {}

  [[nodiscard]] Result<void> begin(std::string_view heading) { return row_.read_heading(heading); }

  void read(const Line& line) {
    if (trimmed(line.text).empty()) return sink_.skip(line.number, "blank");
    if (row_.is_heading(line.text)) return begin_again(line.number);
    if (const auto fault = row_.read_row(line)) return read_no_row(line.number, *fault);
    for (std::size_t i = 0; i < kCellCount; ++i) cells_[i] = row_.cell(i);
    read_kernel(line.number);
  }

  /// Reads a kernel of a database, where collectives have a table of their own.
  void read(const MsprofKernel& kernel) {
    std::ranges::copy(kernel.cells, cells_.begin());
    read_kernel(kernel.line, true);
  }

  /// Errors: Malformed where neighbours are asked for and the rows are not in the order of their start.
  [[nodiscard]] Result<void> finish() {
    leave_waiting();
    if (disorder_) return *disorder_;
    return {};
  }

 private:
  void leave_waiting() {
    for (auto& [device, neighbours] : neighbours_)
      for (const auto& [line, timing] : neighbours.waiting_gathers)
        sink_.skip(line, "no matmul follows this all-gather");
  }

  /// @param has_own_collectives  whether collectives are also in a table of their own
  void read_kernel(std::int64_t line, bool has_own_collectives = false) {
    ++neighbours().row_count;
    const std::string_view type = is_missing(cells_[kType]) ? std::string_view() : cells_[kType];
    const MsprofOperator found = find_msprof_operator(type, cells_[kName]);
    if (answers_.bytes_from_neighbour && !has_own_collectives && is_neighbour(found.work)) check_order(line);
    switch (found.work) {
      case MsprofWork::Other: return sink_.skip(line, "another operator");
      case MsprofWork::OtherCollective: return sink_.skip(line, "no collective that mc2 plans");
      case MsprofWork::FusedMatmul: forget(neighbours(), kNoShapes); return read_fused(line, found);
      case MsprofWork::OtherMatmul: forget(neighbours(), kNoShapes); return sink_.skip(line, kOtherMatmul);
      case MsprofWork::MatmulAndMore:
        forget(neighbours(), kNoShapes);
        return sink_.skip(line, shown(type.empty() ? cells_[kName] : type) + " " + std::string(kMatmulAndMore));
      case MsprofWork::Matmul: return read_matmul(line);
      case MsprofWork::Collective:
        if (!has_own_collectives) return read_collective(line, found.collective);
        [[fallthrough]];
      case MsprofWork::KernelOfCollective:
        return sink_.skip(line, "the kernel of a collective that has a row of its own");
    }
  }

  /// Begins the next of several concatenated files, whose rows are no neighbours of earlier rows.
  void begin_again(std::int64_t line) {
    leave_waiting();
    neighbours_.clear();
    last_neighbours_ = nullptr;
    sink_.next_round();
    sink_.skip(line, "the heading again");
  }

  [[nodiscard]] static bool is_neighbour(MsprofWork work) {
    return work == MsprofWork::Matmul || work == MsprofWork::OtherMatmul || work == MsprofWork::MatmulAndMore ||
           work == MsprofWork::FusedMatmul || work == MsprofWork::Collective;
  }

  /// Remembers an error where rows are not in the order of their start: then the row before a collective need not be
  /// the matmul that ran before it.
  void check_order(std::int64_t line) {
    const auto start = is_missing(cells_[kStart]) ? std::nullopt : parse_us(cells_[kStart]);
    if (!start) return;
    Neighbours& beside = neighbours();
    if (beside.last_line > 0 && *start < beside.last_start && !disorder_)
      disorder_ = Error{ErrorCode::Malformed, "",
                        "line " + std::to_string(line) + " starts before line " + std::to_string(beside.last_line) +
                            ", at " + shown(cells_[kStart]) +
                            " us: the matmul beside a collective is told by rows in the order of their start; sort "
                            "them by their start time, or say --bytes N"};
    beside.last_line = line;
    beside.last_start = *start;
  }

  /// The row's time. Nothing, and the line is bad, where it has none above 0.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> duration(std::int64_t line) {
    const std::string_view cell = cells_[kDuration];
    const auto time = is_missing(cell) ? std::nullopt : parse_us(cell);
    if (!time)
      sink_.bad(line, "'" + shown(cell) + "' is no duration; legal: microseconds, with a decimal point, up to 11 days");
    if (time && time->count() <= 0) sink_.bad(line, "a duration of " + shown(cell) + " us; must be at least 0.001");
    return time && time->count() > 0 ? time : std::nullopt;
  }

  /// Whether the row repeats the event of the row before: same device, stream, task, start and name. Profilers that
  /// merge files write such rows.
  [[nodiscard]] bool is_repeated() {
    if (is_missing(cells_[kStart])) return false;
    std::string event;
    for (const Column column : {kDevice, kStream, kTask, kStart, kName}) (event += cells_[column]) += ',';
    const bool is_same = event == last_event_;
    last_event_ = std::move(event);
    return is_same;
  }

  /// A row that cannot be read may be of any device, so all devices forget their matmul.
  void read_no_row(std::int64_t line, const std::string& fault) {
    for (auto& [device, neighbours] : neighbours_) forget(neighbours, kUnreadable);
    sink_.bad(line, fault);
  }

  void read_matmul(std::int64_t line) {
    if (is_repeated()) return sink_.skip(line, "the same event as the row before");
    auto matmul = find_matmul();
    // The size is right even where the time is not.
    if (matmul)
      remember(*matmul);
    else
      forget(neighbours(), kNoShapes);
    const auto time = duration(line);
    if (!time) return;
    if (!matmul) return refuse_matmul(line);
    matmul->time = *time;
    sink_.take(line, *matmul,
               "matmul n=" + std::to_string(matmul->n) + " k=" + std::to_string(matmul->k) + " " +
                   std::string(planner::to_string(*matmul->dtype)));
  }

  /// Reads a fused operator as one run of a whole cut. Its blocks are not visible here, so only the user knows the cut.
  void read_fused(std::int64_t line, const MsprofOperator& found) {
    if (is_repeated()) return sink_.skip(line, "the same event as the row before");
    if (answers_.blocks.empty()) {
      sink_.ask(kAskBlocks);
      return sink_.skip(line, kUnknownCut);
    }
    const auto time = duration(line);
    if (!time) return;
    const auto shape = find_fused_shape(cells_[kInputShapes], cells_[kOutputShapes]);
    if (!shape)
      return sink_.skip(line, is_tiled() ? kTiled : "a fused operator without shapes: profile with --task-time=l1");
    FusedTiming timing{{{}, answers_.blocks}, found.collective, found.first_lane, shape->m, shape->n, shape->k};
    timing.shards = shape->shards;
    timing.dtype = is_missing(element_type()) ? answers_.dtype : find_dtype(element_type());
    if (!is_missing(element_type()) && !(timing.dtype && has_planned_weights(*timing.dtype)))
      return sink_.skip(line, "a fused operator of " + shown(cells_[kInputTypes]) + ", which mc2 does not plan");
    timing.fused_us = planner::to_us(*time);
    sink_.take(line, std::move(timing), "a fused operator, as a run of the cut that was named");
  }

  /// Whether the second input has A's type, or is quantised to i8 beside a floating A. In both cases the product and
  /// the messages are of A's type.
  [[nodiscard]] bool has_planned_weights(planner::DType dtype) const {
    const auto types = split(bare(cells_[kInputTypes]), ';');
    if (types.size() < 2 || bare(types[1]) == element_type()) return true;
    const bool is_floating = dtype == planner::DType::F16 || dtype == planner::DType::Bf16;
    return is_floating && find_dtype(bare(types[1])) == planner::DType::I8;
  }

  [[nodiscard]] std::string_view element_type() const {
    const std::string_view types = cells_[kInputTypes];
    return bare(types.substr(0, types.find(';')));
  }

  /// Whether A or the product is in a tiled format, whose sizes are those of the tiles: 16,8,16,16 of 128 x 256. They
  /// are rounded up to whole tiles, so that the number of rows is not known.
  [[nodiscard]] bool is_tiled() const {
    return bare(cells_[kInputFormats]).starts_with("FRACTAL") || bare(cells_[kOutputFormats]).starts_with("FRACTAL");
  }

  /// The row's matmul without its time; empty where shapes or element type are missing or wrong.
  [[nodiscard]] std::optional<Timing> find_matmul() {
    const auto shape = shape_of_cells();
    const auto dtype = is_missing(element_type()) ? answers_.dtype : find_dtype(element_type());
    if (!shape || !dtype) return std::nullopt;
    return Timing{.component = Component::Matmul, .m = shape->m, .n = shape->n, .k = shape->k, .dtype = dtype};
  }

  /// find_matmul_shape(), cached by the two texts: a model has few shapes, and a log repeats them in every step.
  [[nodiscard]] std::optional<MatmulShape> shape_of_cells() {
    constexpr std::size_t kMaxKept = 1024, kMaxBytes = 256;
    const std::string_view inputs = cells_[kInputShapes], outputs = cells_[kOutputShapes];
    if (inputs.size() + outputs.size() > kMaxBytes) return find_matmul_shape(inputs, outputs);
    ((shape_key_ = inputs) += '>') += outputs;
    if (const auto known = shapes_.find(shape_key_); known != shapes_.end()) return known->second;
    const auto shape = find_matmul_shape(inputs, outputs);
    if (shapes_.size() < kMaxKept) shapes_.emplace(shape_key_, shape);
    return shape;
  }

  /// Tells the sink why find_matmul() found none.
  void refuse_matmul(std::int64_t line) {
    if (is_missing(cells_[kInputShapes]) || is_missing(cells_[kOutputShapes]))
      return sink_.skip(line, "a matmul without shapes: profile with --task-time=l1");
    if (!shape_of_cells() && is_tiled()) return sink_.skip(line, kTiled);
    if (!shape_of_cells()) {
      const SizeFault in = size_fault_of(cells_[kInputShapes]), out = size_fault_of(cells_[kOutputShapes]);
      if (in == SizeFault::TooLarge || out == SizeFault::TooLarge)
        return sink_.bad(line, "a size is outside 1 to 1000000000: " + shown(cells_[kInputShapes]) + " to " +
                                   shown(cells_[kOutputShapes]));
      if (out == SizeFault::Zero) return sink_.skip(line, "no rows");
      return sink_.bad(
          line, "the shapes do not multiply: " + shown(cells_[kInputShapes]) + " to " + shown(cells_[kOutputShapes]));
    }
    if (!is_missing(element_type()))
      return sink_.skip(line, "a matmul of " + shown(element_type()) + ", which mc2 does not plan");
    sink_.ask("which element type was multiplied (--dtype)");
    sink_.skip(line, "a matmul without element type");
  }

  void remember(const Timing& matmul) {
    Neighbours& beside = neighbours();
    for (auto& [line, gather] : beside.waiting_gathers)
      take_collective(line, gather, bytes_beside(Collective::AllGather, matmul));
    beside.waiting_gathers.clear();
    beside.before = matmul;
    beside.before_row = beside.row_count;
  }

  /// Forgets the last matmul when one of unknown size follows: the size of an earlier or later one would be wrong for
  /// the collectives beside it.
  void forget(Neighbours& beside, const char* fault) {
    for (const auto& [line, gather] : beside.waiting_gathers)
      sink_.skip(line, "the matmul behind this all-gather " + std::string(fault));
    beside.waiting_gathers.clear();
    beside.before.reset();
    beside.why_none = "the matmul before this collective " + std::string(fault);
  }

  /// The neighbours of the row's device. Cached, because most rows are of the same device as the row before.
  [[nodiscard]] Neighbours& neighbours() {
    const std::string_view device = cells_[kDevice];
    if (last_neighbours_ != nullptr && device == last_device_) return *last_neighbours_;
    last_device_ = device;
    const bool is_one_too_many = neighbours_.size() >= kMaxDevices && !neighbours_.contains(last_device_);
    last_neighbours_ = &neighbours_[is_one_too_many ? std::string() : last_device_];
    return *last_neighbours_;
  }

  void read_collective(std::int64_t line, Collective collective) {
    if (is_repeated()) return sink_.skip(line, "the same event as the row before");
    Timing timing{.collective = collective};
    name_run(timing); // before the time is checked, so that a bad row counts as a run
    const auto time = duration(line);
    if (!time) return;
    timing.time = *time;
    if (answers_.message_bytes) return take_collective(line, timing, answers_.message_bytes);
    if (!answers_.bytes_from_neighbour) {
      sink_.ask(
          "how many bytes each collective moved: import the run's msprof_*.db instead, or say --bytes N or --bytes "
          "neighbour");
      return sink_.skip(line, std::string(planner::to_string(collective)) + " without its size");
    }
    Neighbours& beside = neighbours();
    if (collective == Collective::AllGather) return wait_for_matmul(beside, line, timing);
    if (!beside.before) return sink_.skip(line, beside.why_none);
    if (beside.row_count - beside.before_row > kMaxNeighbourRows)
      return sink_.skip(line, "the matmul before this collective stands more than 64 rows away");
    take_collective(line, timing, bytes_beside(collective, *beside.before));
  }

  /// Sets the event. With a numbered name, as "hcom_allReduce__568_0_1", the logs of all ranks number the runs of a
  /// group alike. A run with another name cannot be matched with those of other ranks, so it gets an event of its own.
  void name_run(Timing& timing) {
    const std::string_view name = bare(cells_[kName]);
    const bool is_numbered = has(name, "__");
    const std::uint64_t device = group_name(cells_[kDevice]);
    timing.event = is_numbered ? runs_.next(group_name(name), device) : event_name(log_, ++run_count_);
    timing.rank = static_cast<int>((log_ ^ device) & INT32_MAX); // hosts number devices alike
  }

  void wait_for_matmul(Neighbours& beside, std::int64_t line, const Timing& gather) {
    if (beside.waiting_gathers.size() == kMaxTimingsPerSize)
      return sink_.skip(line,
                        std::to_string(kMaxTimingsPerSize) + " all-gathers before this one wait for their matmul");
    beside.waiting_gathers.emplace_back(line, gather);
  }

  void take_collective(std::int64_t line, Timing timing, std::optional<std::int64_t> bytes) {
    timing.message_bytes = bytes.value_or(0);
    const double us = planner::to_us(timing.time);
    if (!answers_.message_bytes && static_cast<double>(timing.message_bytes) > kMostBytesPerUs * us)
      return sink_.skip(line, "too short for the matmul beside it: " + std::to_string(timing.message_bytes) +
                                  " B would move at more than 2 TB/s");
    sink_.take(line, timing,
               std::string(planner::to_string(timing.collective)) +
                   (answers_.message_bytes ? ", size as said" : ", size of the matmul beside it"));
  }

  const ImportAnswers& answers_;
  std::uint64_t log_;
  LogSink& sink_;
  CsvColumns row_;
  std::array<std::string_view, kCellCount> cells_; ///< cells of the current kernel
  RunNames runs_;
  std::uint64_t run_count_ = 0;
  std::unordered_map<std::string, std::optional<MatmulShape>> shapes_; ///< keyed by the texts of both cells
  std::string shape_key_;
  std::string last_event_;
  std::map<std::string, Neighbours> neighbours_; ///< keyed by device
  std::string last_device_;
  Neighbours* last_neighbours_ = nullptr; ///< entry of last_device_; std::map never moves its values
  std::optional<Error> disorder_;         ///< the first row that is not in the order of starts
};

} // namespace
} // namespace msprof_kernels

/// Two of the format's columns suffice, so that a file without a required column gets an error that names it.
bool detect_msprof_kernels(std::string_view head) {
  using namespace msprof_kernels;
  const std::string_view first = head.substr(0, head.find('\n'));
  if (!has(first, ",")) return false;
  int count = 0;
  for (const std::string_view cell : split(first, ',')) {
    const std::string word = plain(cell.substr(0, cell.find('(')));
    for (const std::string_view name : {"opname", "name", "optype", "type", "taskduration", "duration", "streamid",
                                        "taskid", "inputshapes", "tasktype", "acceleratorcore"})
      if (word == name) ++count;
  }
  return count >= 2;
}

Result<void> read_msprof_kernels(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  using namespace msprof_kernels;
  KernelLog log(answers, group_name(reader.head()), sink);
  MC2_TRY(read_table(reader, log, sink));
  return log.finish();
}

void read_msprof_kernels(const ImportAnswers& answers, LogSink& sink,
                         const std::function<std::optional<MsprofKernel>()>& next) {
  msprof_kernels::KernelLog log(answers, 0, sink);
  while (const auto kernel = next()) log.read(*kernel);
  static_cast<void>(log.finish()); // never an error: collectives have their own table, so rows need no order
}

} // namespace mc2::profiler
