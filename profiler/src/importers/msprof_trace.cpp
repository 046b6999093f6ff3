#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fields.hpp"
#include "json_handler.hpp"
#include "json_pieces.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/profiler/importer.hpp"
#include "mc2/profiler/statistics.hpp"
#include "msprof_names.hpp"

namespace mc2::profiler {
namespace msprof_trace {
namespace {

constexpr std::size_t kMaxTextBytes = 512;
/// Most runs and turns that are kept of one trace.
constexpr std::size_t kMaxRuns = std::size_t{1} << 18, kMaxTurns = std::size_t{1} << 20;
/// Third over first quartile of the times of one operator. Where it is larger, the runs are of several shapes.
constexpr double kMostSpread = 1.25;

/// The fields of one event of the trace that mc2 reads.
struct Event {
  std::string phase, name;
  TraceTimes times;
  std::int64_t device = 0;
  bool is_task = false; ///< a task of the device, not a call of the host
};

struct Interval {
  std::int64_t device = 0, start = 0, end = 0;
};

/// The phases of a turn that are work. All other phases are waiting, or happen once per operator.
enum class Phase : std::uint8_t { Compute, Prepare, Launch, Execute };

/// One phase of the work on one block, e.g. the event "TaskExecute 3".
struct Turn {
  Phase phase = Phase::Compute;
  std::int64_t number = 0; ///< number of the block
  Interval interval = {};
};

/// One run of a fused operator, timed on the stream that computes.
struct FusedRun {
  planner::Collective collective = planner::Collective::AllReduce;
  planner::Lane first_lane = planner::Lane::Compute;
  Interval interval;
  std::int64_t line = 0;
  std::set<std::int64_t> computed = {}, sent = {}; ///< numbers of the blocks with such a turn
  std::int64_t compute_ns = 0, communication_ns = 0;
};

std::optional<Turn> find_turn(std::string_view name) {
  const std::size_t space = name.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto number = parse_whole(name.substr(space + 1));
  if (!number) return std::nullopt;
  const std::string_view word = name.substr(0, space);
  if (word == "Compute") return Turn{Phase::Compute, *number};
  if (word == "TaskOrchestration") return Turn{Phase::Prepare, *number};
  if (word == "TaskLaunch") return Turn{Phase::Launch, *number};
  if (word == "TaskExecute") return Turn{Phase::Execute, *number};
  return std::nullopt;
}

class Handler final : public JsonHandler {
 public:
  Handler(const ImportAnswers& answers, const JsonPieces& pieces, LogSink& sink)
      : answers_(answers), pieces_(pieces), sink_(sink) {}

  bool number_float(number_float_t, const string_t& text) override {
    if (depth() == kInEvent) event_.times.set(key_, parse_us(text));
    return true;
  }
  bool string(string_t& text) override {
    if (depth() != kInEvent || text.size() > kMaxTextBytes) return true;
    if (key_ == "ph")
      event_.phase = std::move(text);
    else if (key_ == "name")
      event_.name = std::move(text);
    else
      event_.times.set(key_, parse_us(text));
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth() == kInList) event_ = {};
    return open();
  }
  bool key(string_t& name) override {
    name.resize(std::min(name.size(), kMaxTextBytes));
    if (depth() == kInEvent) key_ = name;
    if (depth() == kInArguments && key_ == "args" && name == "Task Type") event_.is_task = true;
    return true;
  }
  bool end_object() override {
    close();
    if (depth() == kInList) take_event();
    return true;
  }
  /// Assigns turns to runs only now, because a turn may precede its run in the trace.
  void finish() override {
    std::ranges::stable_sort(runs_, {},
                             [](const FusedRun& run) { return std::pair(run.interval.device, run.interval.start); });
    for (const Turn& turn : turns_) add_turn(turn);
    std::map<planner::Collective, std::vector<double>> times;
    for (const FusedRun& run : runs_) times[run.collective].push_back(static_cast<double>(time_of(run)));
    std::set<planner::Collective> mixed;
    for (const auto& [collective, ns] : times)
      if (quantile(ns, 0.75) > kMostSpread * quantile(ns, 0.25)) mixed.insert(collective);
    const auto cut = planner::parse_cut(answers_.blocks);
    const std::size_t block_count = cut ? cut.value().block_rows.size() : 0;
    for (const FusedRun& run : runs_) take_run(run, mixed.contains(run.collective), block_count);
  }

 private:
  /// Depths: the events are in one list, and each event has an object with its arguments.
  static constexpr std::size_t kInList = 1, kInEvent = 2, kInArguments = 3;

  bool whole(std::int64_t value) override {
    if (depth() == kInEvent && key_ == "pid") event_.device = value;
    if (depth() == kInEvent) event_.times.set(key_, value);
    return true;
  }

  void take_event() {
    const std::int64_t line = pieces_.line();
    if (event_.phase != "X") return sink_.skip(line, "no event with a duration");
    const auto turn = find_turn(event_.name);
    const MsprofOperator found = turn ? MsprofOperator{} : find_msprof_operator({}, event_.name);
    if (found.work == MsprofWork::Collective)
      return sink_.skip(line, "a collective; its size is in the run's msprof_*.db");
    if (event_.is_task && found.work == MsprofWork::OtherMatmul) return sink_.skip(line, kOtherMatmul);
    if (event_.is_task && found.work == MsprofWork::MatmulAndMore)
      return sink_.skip(line, shown(event_.name) + " " + std::string(kMatmulAndMore));
    if (!turn && (found.work != MsprofWork::FusedMatmul || !event_.is_task))
      return sink_.skip(line, "no fused operator, and no turn of one");
    const auto end = event_.times.end();
    if (!end) {
      // A phase may be shorter than the clock's step.
      if (turn && event_.times.start && event_.times.time == 0) return sink_.skip(line, "a phase of no length");
      return sink_.bad(line, "'" + shown(event_.name) + "' has no start and no time above 0");
    }
    const Interval interval{event_.device, *event_.times.start, *end};
    if (turn) {
      if (turns_.size() == kMaxTurns) return sink_.skip(line, "behind the first 1048576 turns");
      turns_.push_back({turn->phase, turn->number, interval});
      return sink_.skip(line, "a turn of a fused operator, whose run is what is taken");
    }
    if (runs_.size() == kMaxRuns) return sink_.skip(line, "behind the first 262144 fused operators");
    runs_.push_back({found.collective, found.first_lane, interval, line});
  }

  static std::int64_t time_of(const FusedRun& run) { return run.interval.end - run.interval.start; }

  /// Adds a turn to the run on its device that contains the turn's middle.
  void add_turn(const Turn& turn) {
    const std::pair middle(turn.interval.device, turn.interval.start + (turn.interval.end - turn.interval.start) / 2);
    const auto after = std::ranges::upper_bound(
        runs_, middle, {}, [](const FusedRun& run) { return std::pair(run.interval.device, run.interval.start); });
    if (after == runs_.begin()) return;
    FusedRun& run = *std::prev(after);
    if (run.interval.device != middle.first || run.interval.end < middle.second) return;
    const std::int64_t turn_ns =
        std::min(turn.interval.end, run.interval.end) - std::max(turn.interval.start, run.interval.start);
    if (turn.phase == Phase::Compute) run.computed.insert(turn.number);
    if (turn.phase == Phase::Execute) run.sent.insert(turn.number);
    std::int64_t& sum_ns = turn.phase == Phase::Compute ? run.compute_ns : run.communication_ns;
    sum_ns = std::min(sum_ns + turn_ns, 2 * time_of(run)); // a sum above the run's time is refused later
  }

  /// @param block_count  blocks of the cut that the user named
  void take_run(const FusedRun& run, bool is_mixed, std::size_t block_count) {
    if (answers_.blocks.empty()) {
      sink_.ask(kAskBlocks);
      return sink_.skip(run.line, kUnknownCut);
    }
    if (is_mixed)
      return sink_.skip(run.line,
                        "a fused operator whose runs' times differ by more than 25 %: of several shapes, which a trace "
                        "does not tell; import op_summary_*.csv");
    if (!run.sent.empty() && run.sent.size() != block_count)
      return sink_.bad(run.line, "it sent in " + std::to_string(run.sent.size()) +
                                     " turns, and the cut that is named has " + std::to_string(block_count) +
                                     " blocks");
    FusedTiming timing{{{}, answers_.blocks}, run.collective, run.first_lane};
    const auto us = [](std::int64_t ns) { return static_cast<double>(ns) / planner::kNsPerUs; };
    timing.fused_us = us(time_of(run));
    if (!run.sent.empty()) timing.communication_blocks_us = us(run.communication_ns);
    const bool has_own_rows = run.collective == planner::Collective::AllGather;
    if (run.computed.size() == block_count + (has_own_rows ? 1 : 0)) timing.compute_blocks_us = us(run.compute_ns);
    sink_.take(run.line, std::move(timing), "a fused operator, as a run of the cut that was named");
  }

  const ImportAnswers& answers_;
  const JsonPieces& pieces_;
  LogSink& sink_;
  std::string key_;
  Event event_;
  std::vector<FusedRun> runs_;
  std::vector<Turn> turns_;
};

} // namespace
} // namespace msprof_trace

bool detect_msprof_trace(std::string_view head) {
  return trimmed(head).starts_with('[') && has(head, "\"ph\"") && has(head, "\"pid\"") &&
         (has(head, "\"Task Type\"") || has(head, "Ascend Hardware") || has(head, "\"CANN\"") ||
          has(head, "\"TaskExecute "));
}

Result<void> read_msprof_trace(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  using namespace msprof_trace;
  return read_json_log<Handler>(reader, sink, answers);
}

} // namespace mc2::profiler
