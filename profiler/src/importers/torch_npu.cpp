#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "event_name.hpp"
#include "fields.hpp"
#include "json_handler.hpp"
#include "json_pieces.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/profiler/importer.hpp"
#include "msprof_names.hpp"

namespace mc2::profiler {
namespace torch_npu {
namespace {

constexpr std::string_view kTimes = "Communication Time Info";
constexpr double kUsPerMs = 1000;
constexpr std::size_t kMaxKeyBytes = 512;

/// The ranks of "(0, 1)"; none for anything else.
std::set<std::int64_t> ranks_in(const std::string& key) {
  std::set<std::int64_t> ranks;
  if (!key.starts_with('(') || !key.ends_with(')')) return ranks;
  for (const std::string_view part : split(std::string_view(key).substr(1, key.size() - 2), ','))
    if (const auto rank = parse_whole(trimmed(part)); rank && ranks.size() < planner::kMaxWorldSize)
      ranks.insert(*rank);
  return ranks;
}

/// The keys under which a run stands, for messages: "step1, collective, hcom_allReduce__568_0_1".
std::string run_text(std::span<const std::string> path) { return list_text(path, shown); }

/// Keeps the names of the open objects. Where the innermost object holds the times of a run, keeps these times as well.
class Handler final : public JsonHandler {
 public:
  Handler(const ImportAnswers& answers, const JsonPieces& pieces, LogSink& sink)
      : answers_(answers), pieces_(pieces), sink_(sink) {}

  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (is_times()) elapsed_us_ = waited_us_ = {};
    return open_named();
  }
  bool start_array(std::size_t) override { return open_named(); }
  bool key(string_t& name) override {
    name.resize(std::min(name.size(), kMaxKeyBytes));
    keys_.back() = name;
    return true;
  }
  bool end_array() override {
    keys_.pop_back();
    return close();
  }
  bool end_object() override {
    keys_.pop_back();
    if (is_times()) read_run();
    return close();
  }

 private:
  bool open_named() {
    keys_.emplace_back();
    return open();
  }

  /// Whether the current object holds the times of a run.
  [[nodiscard]] bool is_times() const { return !keys_.empty() && keys_.back() == kTimes; }

  bool number(double value) {
    if (keys_.size() < 2 || keys_[keys_.size() - 2] != kTimes) return true;
    if (keys_.back() == "Elapse Time(ms)") elapsed_us_ = value * kUsPerMs;
    if (keys_.back() == "Synchronization Time(ms)") waited_us_ = value * kUsPerMs;
    return true;
  }

  /// Reads a run. Its times are in an object under the run's name, or under a rank's number under the run's name.
  void read_run() {
    const std::int64_t line = pieces_.line();
    std::span<const std::string> path(keys_.data(), keys_.size() - 1);
    const auto rank = path.empty() ? std::nullopt : parse_whole(path.back());
    if (rank) path = path.first(path.size() - 1);
    const std::string name = path.empty() ? "" : path.back();
    if (name.starts_with("Total Op Info") || name.starts_with("total")) return sink_.skip(line, "a sum over runs");
    const MsprofOperator found = find_msprof_operator({}, name);
    if (found.work != MsprofWork::Collective) return sink_.skip(line, "no collective that mc2 plans");
    if (!elapsed_us_ || !waited_us_ || *waited_us_ < 0)
      return sink_.bad(line, run_text(path) + ": its elapse or synchronization time is no number of at least 0");
    if (!answers_.message_bytes) {
      sink_.ask("the collectives' bytes (--bytes): these logs tell what links moved; or import the run's database");
      return sink_.skip(line, "without the size of its array");
    }
    take(line, found.collective, path, rank);
  }

  /// Takes a run. With times of several ranks, each rank's whole time is taken: one rank came last and did not wait.
  /// Otherwise the time is taken without the waiting before the run began.
  void take(std::int64_t line, planner::Collective collective, std::span<const std::string> path,
            std::optional<std::int64_t> rank) {
    const auto ranks = ranks_in(path.front());
    const bool is_of_all = rank && ranks.size() >= 2;
    if (is_of_all && !ranks.contains(*rank))
      return sink_.bad(line, run_text(path) + ": its rank is none of " + shown(path.front()));
    const auto time = from_us(is_of_all ? *elapsed_us_ : *elapsed_us_ - *waited_us_);
    if (!time || time->count() <= 0)
      return sink_.bad(line, run_text(path) + ": it takes no time, or waited for longer than it took");
    Timing timing{.collective = collective, .message_bytes = *answers_.message_bytes, .time = *time};
    if (is_of_all) {
      timing.world_size = static_cast<int>(ranks.size());
      timing.event = event_name(group_name(list_text(path)), 0);
      timing.rank = static_cast<int>(std::distance(ranks.begin(), ranks.find(*rank)));
    }
    sink_.take(line, timing, std::string(planner::to_string(collective)) + ", size as said");
  }

  const ImportAnswers& answers_;
  const JsonPieces& pieces_;
  LogSink& sink_;
  std::vector<std::string> keys_; ///< for each open object, the last key that was read
  std::optional<double> elapsed_us_, waited_us_;
};

} // namespace
} // namespace torch_npu

bool detect_torch_npu(std::string_view head) {
  return trimmed(head).starts_with('{') && (has(head, torch_npu::kTimes) || has(head, "\"Transit Size(MB)\""));
}

Result<void> read_torch_npu(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  using namespace torch_npu;
  if (!has(reader.head(), kTimes))
    return Error{ErrorCode::Malformed, "",
                 "has the fastest and slowest links of runs, not what a run took; import communication.json, or the "
                 "run's database"};
  return read_json_log<Handler>(reader, sink, answers);
}

} // namespace mc2::profiler
