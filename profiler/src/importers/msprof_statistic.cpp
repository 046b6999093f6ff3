#include <string>
#include <vector>

#include "csv_columns.hpp"
#include "fields.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/profiler/importer.hpp"
#include "msprof_names.hpp"

namespace mc2::profiler {
namespace msprof_statistic {
namespace {

using planner::Component;

enum Column : std::size_t { kType, kCount, kTotal, kMin, kAvg, kMax };
/// Slowest over fastest call. Calls of one shape vary less, unless they wait for other ranks.
constexpr double kMixedShapes = 3;
constexpr double kRoundingError = 0.01; ///< tolerance of total / count against the mean: the tool rounds both

const std::vector<WantedColumn>& columns() {
  static const std::vector<WantedColumn> kColumns{{{"optype"}, "'OP Type'", true},
                                                  {{"count"}, "'Count'", true},
                                                  {{"totaltime"}, "'Total Time(us)'", true, true},
                                                  {{"mintime"}, "'Min Time(us)'", true, true},
                                                  {{"avgtime"}, "'Avg Time(us)'", true, true},
                                                  {{"maxtime"}, "'Max Time(us)'", true, true}};
  return kColumns;
}

/// A log with one line for each operator: how often it ran and how long it took on average, over all its sizes.
class StatisticLog {
 public:
  StatisticLog(const ImportAnswers& answers, LogSink& sink) : answers_(answers), sink_(sink), row_(columns()) {}

  [[nodiscard]] Result<void> begin(std::string_view heading) { return row_.read_heading(heading); }

  void read(const Line& line) {
    if (trimmed(line.text).empty()) return sink_.skip(line.number, "blank");
    if (row_.is_heading(line.text)) return sink_.skip(line.number, "the heading again");
    if (const auto fault = row_.read_row(line)) return sink_.bad(line.number, *fault);
    const MsprofOperator found = find_msprof_operator(row_.cell(kType), "");
    if (found.work != MsprofWork::Matmul && found.work != MsprofWork::Collective)
      return sink_.skip(line.number, "no matmul, and no collective that mc2 plans");
    if (const auto mean = check_times(line.number)) take(line.number, found, *mean);
  }

 private:
  /// The mean time. Nothing, and the line is bad, when the line contradicts itself.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> check_times(std::int64_t line) {
    const auto count = parse_whole(row_.cell(kCount));
    const auto total = parse_us(row_.cell(kTotal)), low = parse_us(row_.cell(kMin)), mean = parse_us(row_.cell(kAvg)),
               high = parse_us(row_.cell(kMax));
    const auto refuse = [&](const std::string& why) {
      sink_.bad(line, why);
      return std::optional<std::chrono::nanoseconds>();
    };
    if (count && *count == 0) {
      sink_.skip(line, "no calls");
      return std::nullopt;
    }
    if (!count || *count < 1 || !total || !low || !mean || !high)
      return refuse("a count or time is missing, or no number");
    if (low->count() <= 0 || *low > *mean || *mean > *high)
      return refuse("the times do not rise from min over avg to max, all above 0");
    const double ratio =
        static_cast<double>(total->count()) / static_cast<double>(*count) / static_cast<double>(mean->count());
    if (ratio < 1 - kRoundingError || ratio > 1 + kRoundingError)
      return refuse("total time / count is not the average time");
    if (static_cast<double>(high->count()) > kMixedShapes * static_cast<double>(low->count())) {
      sink_.skip(line, "times from " + std::string(row_.cell(kMin)) + " to " + std::string(row_.cell(kMax)) +
                           " us: calls of several shapes, whose mean is of none; import op_summary_*.csv instead");
      return std::nullopt;
    }
    return mean;
  }

  void take(std::int64_t line, const MsprofOperator& found, std::chrono::nanoseconds mean) {
    if (found.work == MsprofWork::Collective) {
      const std::string name(planner::to_string(found.collective));
      if (answers_.message_bytes)
        return sink_.take(line,
                          {.collective = found.collective, .message_bytes = *answers_.message_bytes, .time = mean},
                          name + ", the mean of " + std::string(row_.cell(kCount)) + ", size as said");
      sink_.ask("how many bytes each collective moved: import the run's msprof_*.db instead, or say --bytes N");
      return sink_.skip(line, "the mean of " + name + " calls without their size");
    }
    if (answers_.m && answers_.n && answers_.k && answers_.dtype)
      return sink_.take(line,
                        {.component = Component::Matmul,
                         .m = *answers_.m,
                         .n = *answers_.n,
                         .k = *answers_.k,
                         .dtype = answers_.dtype,
                         .time = mean},
                        "matmul, the mean of " + std::string(row_.cell(kCount)) + ", shape as said");
    sink_.ask(
        "which shape and type the matmuls had (--m, --n, --k, --dtype): a statistic holds neither; op_summary_*.csv "
        "does");
    sink_.skip(line, "the mean of matmuls without their shape");
  }

  const ImportAnswers& answers_;
  LogSink& sink_;
  CsvColumns row_;
};

} // namespace
} // namespace msprof_statistic

bool detect_msprof_statistic(std::string_view head) {
  const std::string_view first = head.substr(0, head.find('\n'));
  return has(first, "OP Type") && has(first, "Total Time");
}

Result<void> read_msprof_statistic(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  using namespace msprof_statistic;
  StatisticLog log(answers, sink);
  return read_table(reader, log, sink);
}

} // namespace mc2::profiler
