#include "log_sink.hpp"

#include <algorithm>

#include "event_name.hpp"
#include "fields.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/planner/profile.hpp"
#include "mc2/planner/text.hpp"
#include "row_unit.hpp"

namespace mc2::profiler {
namespace {

using planner::Component;

constexpr std::size_t kMaxFactBytes = 256;
constexpr std::size_t kMaxTextCount = 8; ///< of questions, and of notes

bool is_size(std::int64_t size) { return size >= 1 && size <= planner::kMaxSize; }

/// Why the timing cannot be used; empty when it can.
std::string_view fault_of(const Timing& timing) {
  if (timing.time.count() <= 0) return "its time is not above 0";
  if (timing.time.count() > kMaxTimeNs) return "its time is above 11 days";
  if (timing.component == Component::Matmul)
    return is_size(timing.m) && is_size(timing.n) && is_size(timing.k) ? "" : "a size is outside 1 to 1000000000";
  return timing.message_bytes >= 1 && timing.message_bytes <= kMaxMessageBytes ? ""
                                                                               : "its size is outside 1 B to 1 PiB";
}

void add_once(std::vector<std::string>& texts, std::string_view text) {
  if (texts.size() < kMaxTextCount && std::ranges::find(texts, text) == texts.end()) texts.emplace_back(text);
}

} // namespace

namespace {

/// The operator of which the user states everything.
std::optional<planner::OpSpec> stated_operator(const ImportAnswers& answers) {
  if (!answers.kind || !answers.dtype || !answers.world_size || !answers.m || !answers.n || !answers.k)
    return std::nullopt;
  planner::OpSpec op;
  op.kind = *answers.kind;
  op.dtype = *answers.dtype;
  op.world_size = *answers.world_size;
  op.m = *answers.m;
  op.n = *answers.n;
  op.k = *answers.k;
  return op.validate() ? std::optional(op) : std::nullopt;
}

} // namespace

LogSink::LogSink(TimingSet& timings, const ImportHooks& hooks, LogSummary& summary, const ImportAnswers& answers)
    : timings_(timings), hooks_(hooks), summary_(summary), op_(stated_operator(answers)) {
  const bool cuts_columns = op_ && planner::cut_axis(*op_) == planner::CutAxis::Columns;
  if (!answers.kind || !answers.world_size || cuts_columns) return;
  block_unit_ = row_unit(*answers.kind, *answers.world_size);
  if (block_unit_ > 1)
    unit_remark_ = "; not used: the rows of a block of " + std::string(planner::to_string(*answers.kind)) +
                   " are a multiple of " + std::to_string(block_unit_);
}

bool TimedEvent::is_complete(int world_size) const noexcept {
  return !is_torn && world_size > 0 && std::ssize(ranks) >= world_size;
}

void TimingSet::add_event(TimingGroup& group, const Timing& timing) const {
  const auto at = std::ranges::lower_bound(group.events, timing.event, {}, &TimedEvent::event);
  if (at == group.events.end() || at->event != timing.event) {
    group.events.insert(at, {timing.event, {timing.time, round_}, {{timing.rank, timing.time}}});
    if (group.events.size() > kMaxTimingsPerSize) group.events.pop_back();
    return;
  }
  const auto known = std::ranges::lower_bound(at->ranks, timing.rank, {}, [](const auto& each) { return each.first; });
  if (known == at->ranks.end() || known->first != timing.rank)
    at->ranks.emplace(known, timing.rank, timing.time);
  else
    at->is_torn = at->is_torn || known->second != timing.time; // an equal time is the same log read again
  at->shortest.time = std::min(at->shortest.time, timing.time);
}

bool TimingSet::add(const Timing& timing) {
  const TimingKey key{timing.component, timing.collective, timing.message_bytes, timing.m,
                      timing.n,         timing.k,          timing.dtype,         timing.world_size};
  if (last_ == groups_.end() || last_->first != key) {
    last_ = groups_.find(key);
    if (last_ == groups_.end()) {
      if (groups_.size() >= kMaxTimingSizes) return false;
      last_ = groups_.try_emplace(key).first;
    }
  }
  TimingGroup& group = last_->second;
  const TimedRound sample{timing.time, round_};
  ++group.count;
  if (timing.event != 0) {
    add_event(group, timing);
    return true;
  }
  if (group.kept.size() < kMaxTimingsPerSize) {
    group.kept.push_back(sample);
    return true;
  }
  const std::uint64_t place = spread_number(0, ++draw_) % static_cast<std::uint64_t>(group.count);
  if (place < kMaxTimingsPerSize) group.kept[place] = sample;
  return true;
}

void LogSink::tell(std::int64_t line, Verdict verdict, std::string_view text) {
  if (hooks_.on_line) hooks_.on_line({line, verdict, text});
}

void LogSink::take(std::int64_t line, const Timing& timing, std::string_view text) {
  if (const std::string_view fault = fault_of(timing); !fault.empty())
    return bad(line, std::string(text) + ": " + std::string(fault));
  if (!timings_.add(timing)) return skip(line, "one of more than 4096 different sizes");
  ++summary_.took_count;
  if (timing.component == Component::Matmul && timing.m % block_unit_ != 0)
    return tell(line, Verdict::Took, std::string(text) + unit_remark_);
  tell(line, Verdict::Took, text);
}

std::string FusedTiming::place() const {
  if (line == 0) return log;
  return (log.empty() ? "line " : log + ":") + std::to_string(line);
}

void TimingSet::name_log(const std::string& name) {
  for (; named_count_ < fused_.size(); ++named_count_) fused_[named_count_].log = name;
}

bool TimingSet::add(FusedTiming timing) {
  if (fused_.size() >= kMaxFusedTimings) return false;
  fused_.push_back(std::move(timing));
  return true;
}

void LogSink::take(std::int64_t line, FusedTiming timing, std::string_view text) {
  for (const double us : {timing.fused_us, timing.serial_us, timing.compute_us, timing.communication_us,
                          timing.compute_blocks_us, timing.communication_blocks_us})
    if (us * planner::kNsPerUs > static_cast<double>(kMaxTimeNs))
      return bad(line, std::string(text) + ": its time is above 11 days");
  if (const auto fits = planner::validate_block_times(timing); !fits)
    return bad(line, std::string(text) + ": " + fits.error().message);
  const auto alike = planner::validate_units(timing);
  for (const std::string& why : {alike ? "" : alike.error().message, operator_fault(timing)})
    if (!why.empty()) return bad(line, std::string(text) + ": " + why);
  timing.line = line;
  if (!timings_.add(std::move(timing))) return skip(line, "one of more than 65536 fused runs");
  ++summary_.took_count;
  tell(line, Verdict::Took, text);
}

std::string LogSink::operator_fault(const FusedTiming& timing) const {
  const bool is_of_other = timing.n != 0 && op_ && (timing.m != op_->m || timing.n != op_->n || timing.k != op_->k);
  if (!op_ || is_of_other) return {};
  const auto cut = planner::parse_cut(timing.blocks);
  if (!cut) return {}; // the digest of a plan
  const auto fits = planner::validate_measured_cut(*op_, {timing, {std::string(kImportedVariant), {}}, cut.value()});
  return fits ? "" : "'" + shown(timing.blocks) + "': " + fits.error().message;
}

void LogSink::skip(std::int64_t line, std::string_view why) {
  ++summary_.skipped_count;
  tell(line, Verdict::Skipped, why);
}

bool LogSink::skip_unknown(std::int64_t line, std::string_view text, std::string_view why) {
  for (const Importer& other : importer_registry())
    if (other.knows_heading && other.name != summary_.format && other.detect(text)) {
      const std::string name(other.name);
      skip(line, "begins a table of " + name + "; to take it, import the file again with --format " + name);
      return true;
    }
  skip(line, why);
  return false;
}

void LogSink::bad(std::int64_t line, std::string_view why) {
  if (summary_.bad_count++ == 0) {
    summary_.first_bad = why;
    summary_.first_bad_line = line;
  }
  tell(line, Verdict::Bad, why);
}

void LogSink::fact(const std::string& key, std::string_view value) {
  std::string text;
  for (const char c : value.substr(0, kMaxFactBytes))
    text.push_back(static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c);
  std::string& known = summary_.facts[key];
  if (known.empty())
    known = text;
  else if (known != text && known.size() < kMaxFactBytes && known.find(text) == std::string::npos)
    known += ", " + text;
}

std::optional<planner::Collective> LogSink::collective_of(std::int64_t line, std::optional<planner::Collective> logged,
                                                          const ImportAnswers& answers) {
  const auto collective = logged ? logged : answers.collective;
  if (!collective) {
    ask(kAskCollective);
    skip(line, "the log does not name its collective");
  }
  return collective;
}

void LogSink::ask(std::string_view question) { add_once(summary_.questions, question); }

void LogSink::note_newer_format(std::string_view format, std::string_view newest_known) {
  add_once(summary_.notes, "is of format " + shown(format) + ", and the newest that mc2 knows is " +
                               std::string(newest_known) + ": what it calls times and sizes may have changed");
}

} // namespace mc2::profiler
