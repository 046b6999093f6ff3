#include "mc2/profiler/import_report.hpp"
#include "mc2/planner/text.hpp"

#include <algorithm>

namespace mc2::profiler {
namespace {

constexpr std::string_view kOtherLines = "other lines";

} // namespace

std::string_view to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::Took: return "took";
    case Verdict::Skipped: return "skipped";
    case Verdict::Bad: return "bad";
  }
  return "unknown";
}

void ImportReport::add(const LineVerdict& verdict) {
  if (!last_group_ || last_key_.first != verdict.verdict || last_key_.second != verdict.text) {
    last_key_ = {verdict.verdict, std::string(verdict.text)};
    const bool is_full = groups_.size() >= kMaxGroups && !groups_.contains(last_key_);
    last_group_ = &groups_[is_full ? Key(verdict.verdict, kOtherLines) : last_key_];
  }
  LineGroup& group = *last_group_;
  ++group.count;
  const bool goes_on = group.last_line + 1 == verdict.line || group.last_line == verdict.line;
  if (!group.runs.empty() && goes_on && group.runs.back().second == group.last_line)
    group.runs.back().second = verdict.line;
  else if (group.runs.size() < kMaxRuns)
    group.runs.emplace_back(verdict.line, verdict.line);
  group.last_line = verdict.line;
}

Result<void> ImportedLogs::add(const std::string& name, const LogSummary& summary) {
  for (const auto& [key, value] : summary.facts) {
    const auto [known, is_new] = facts.try_emplace(key, value);
    if (is_new || known->second == value) continue;
    return Error{ErrorCode::InvalidSpec, "files",
                 "the logs disagree in " + key + ": '" + known->second + "' and '" + value +
                     "'; import them apart, under different --device names"};
  }
  took_count += summary.took_count;
  timings.name_log(name);
  for (const auto& note : summary.notes) notes.push_back(name + " " + note);
  if (summary.rank)
    if (const auto [known, is_new] = ranks.try_emplace(*summary.rank, name); !is_new)
      notes.push_back(name + " calls itself rank " + std::to_string(*summary.rank) + ", as " + known->second +
                      " does: runs that both tell count twice; import one log of each rank, or of other steps");
  for (const auto& question : summary.questions)
    if (std::ranges::find(questions, question) == questions.end()) questions.push_back(question);
  if (summary.bad_count > 0 && first_bad.empty())
    first_bad = name + ":" + std::to_string(summary.first_bad_line) + ": " + summary.first_bad +
                (summary.bad_count > 1 ? " (and " + std::to_string(summary.bad_count - 1) + " more)" : "");
  return {};
}

Result<void> ImportedLogs::require_timings() const {
  if (took_count > 0) return {};
  if (questions.empty()) return Error{ErrorCode::CannotFit, "", "no line of the logs is a timing that mc2 can use"};
  return Error{ErrorCode::InvalidSpec, "", "no timing was taken; say " + list_text(questions, "; ")};
}

} // namespace mc2::profiler
