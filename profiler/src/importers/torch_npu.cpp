#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "event_name.hpp"
#include "fields.hpp"
#include "formats.hpp"
#include "json_pieces.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/text.hpp"
#include "msprof_names.hpp"

namespace mc2::profiler {
namespace torch_npu {
namespace {

using nlohmann::json;

constexpr const char* kTimes = "Communication Time Info";
constexpr const char* kElapsed = "Elapse Time(ms)";
constexpr double kUsPerMs = 1000;
constexpr std::size_t kMostKeys = 16; ///< deeper than any of these logs

/// Members of a step that are no run.
bool is_sum(const std::string& name) { return name.starts_with("Total Op Info") || name.starts_with("total"); }

/// "(0, 1)", which names the ranks of a group: so many. 0 for anything else.
int ranks_in(const std::string& key) {
  if (!key.starts_with('(') || !key.ends_with(')')) return 0;
  std::int64_t count = 0;
  for (const std::string_view rank : split(std::string_view(key).substr(1, key.size() - 2), ','))
    if (parse_whole(trimmed(rank))) ++count;
  return count >= 2 && count <= planner::kMaxWorldSize ? static_cast<int>(count) : 0;
}

class Runs {
 public:
  Runs(const ImportAnswers& answers, LogSink& sink) : answers_(answers), sink_(sink) {}

  /// Called by the parser. False: what was read is of no more use.
  bool visit(int depth, json::parse_event_t event, json& parsed, std::int64_t line) {
    const auto at = static_cast<std::size_t>(std::max(depth, 1));
    if (event == json::parse_event_t::key && at <= kMostKeys) {
      keys_.resize(at);
      keys_.back() = parsed.get_ref<const std::string&>();
    }
    if (event != json::parse_event_t::object_end || !parsed.is_object()) return true;
    const auto times = parsed.find(kTimes);
    if (times == parsed.end()) return depth == 0 || parsed.contains(kElapsed); // what a run's end needs
    keys_.resize(std::min(static_cast<std::size_t>(depth), keys_.size()));
    read(line, *times);
    return false;
  }

 private:
  /// A run's times stand under its name, or under a rank's under its name.
  void read(std::int64_t line, const json& times) {
    std::optional<std::int64_t> rank;
    std::string name = keys_.empty() ? std::string() : keys_.back();
    if (keys_.size() >= 2 && (rank = parse_whole(name))) name = keys_[keys_.size() - 2];
    if (is_sum(name)) return sink_.skip(line, "a sum over runs");
    const MsprofOperator found = find_msprof_operator({}, name);
    if (found.work != MsprofWork::Collective) return sink_.skip(line, "no collective that mc2 plans");
    const auto us_of = [&](const char* key) -> std::optional<double> {
      const auto value = times.find(key);
      if (value == times.end() || !value->is_number()) return std::nullopt;
      return value->get<double>() * kUsPerMs;
    };
    const auto elapsed = us_of(kElapsed), waited = us_of("Synchronization Time(ms)");
    if (!elapsed || !waited || !(*waited >= 0))
      return sink_.bad(line, "its elapse or synchronization time is no number");
    if (!answers_.message_bytes) {
      sink_.ask("the collectives' bytes (--bytes): these logs tell what links moved; or import the run's database");
      return sink_.skip(line, "without the size of its array");
    }
    take(line, found.collective, name, rank, *elapsed, *waited);
  }

  /// Of a rank: with the times of the others, of which one came last. Else less what it waited before it began.
  void take(std::int64_t line, planner::Collective collective, const std::string& name,
            std::optional<std::int64_t> rank, double elapsed_us, double waited_us) {
    const int group_ranks = keys_.empty() ? 0 : ranks_in(keys_.front());
    const bool is_of_all = rank && group_ranks > 0;
    const auto time = from_us(is_of_all ? elapsed_us : elapsed_us - waited_us);
    if (!time || time->count() <= 0) return sink_.bad(line, "it takes no time, or waited for longer than it took");
    Timing timing{
        .collective = collective, .message_bytes = *answers_.message_bytes, .world_size = group_ranks, .time = *time};
    std::string run = name;
    if (is_of_all) run = list_text(std::span(keys_).first(keys_.size() - 1));
    timing.event = event_name(group_name(run), is_of_all ? 0 : ++run_count_);
    timing.rank = static_cast<int>(std::min<std::int64_t>(rank.value_or(0), planner::kMaxWorldSize));
    sink_.take(line, timing, std::string(planner::to_string(collective)) + ", size as said");
  }

  const ImportAnswers& answers_;
  LogSink& sink_;
  std::vector<std::string> keys_; ///< of the objects that are open
  std::uint64_t run_count_ = 0;
};

} // namespace
} // namespace torch_npu

bool detect_torch_npu(std::string_view head) {
  const auto has = [head](std::string_view text) { return head.find(text) != std::string_view::npos; };
  return trimmed(head).starts_with('{') && (has(torch_npu::kTimes) || has("\"Transit Size(MB)\""));
}

Result<void> read_torch_npu(LogReader& reader, const ImportAnswers& answers, LogSink& sink) {
  using namespace torch_npu;
  if (reader.head().find(kTimes) == std::string_view::npos)
    return Error{ErrorCode::Malformed, "",
                 "has the fastest and slowest links of runs, not what a run took; import communication.json, or the "
                 "run's database"};
  JsonPieces pieces(reader);
  Runs runs(answers, sink);
  const auto visit = [&](int depth, json::parse_event_t event, json& parsed) {
    return runs.visit(depth, event, parsed, pieces.line());
  };
  const json document = json::parse(pieces.begin(), JsonPieces::end(), visit, false);
  if (document.is_discarded() && reader.fault().empty())
    sink.bad(pieces.line(), "is no JSON from here on; the log is cut or damaged");
  return {};
}

} // namespace mc2::profiler
