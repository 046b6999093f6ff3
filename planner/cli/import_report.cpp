#include "import_report.hpp"

#include "render.hpp"

namespace mc2::cli {
namespace {

constexpr std::size_t kMaxGroups = 256;
constexpr std::size_t kMaxRuns = 4;
constexpr std::string_view kOtherGroups = "other lines; --report FILE names each";

std::string run_text(const std::pair<std::int64_t, std::int64_t>& run) {
  return std::to_string(run.first) + (run.first == run.second ? "" : "-" + std::to_string(run.second));
}

std::string lines_text(const LineGroup& group) {
  std::string text;
  for (const auto& run : group.runs) text += (text.empty() ? "" : ", ") + run_text(run);
  return group.last_line > group.runs.back().second ? text + ", ... " + std::to_string(group.last_line) : text;
}

} // namespace

std::string_view to_string(profiler::Verdict verdict) noexcept {
  switch (verdict) {
    case profiler::Verdict::Took: return "took";
    case profiler::Verdict::Skipped: return "skipped";
    case profiler::Verdict::Bad: return "bad";
  }
  return "unknown";
}

void ImportReport::add(const profiler::LineVerdict& verdict) {
  if (every_line_)
    *every_line_ << file_ << ':' << verdict.line << '\t' << to_string(verdict.verdict) << '\t' << verdict.text
                 << '\n';
  if (!last_group_ || last_key_.first != verdict.verdict || last_key_.second != verdict.text) {
    last_key_ = {verdict.verdict, std::string(verdict.text)};
    const bool is_full = groups_.size() >= kMaxGroups && !groups_.contains(last_key_);
    last_group_ = &groups_[is_full ? std::pair(verdict.verdict, std::string(kOtherGroups)) : last_key_];
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

std::string ImportReport::text() const {
  std::vector<std::vector<std::string>> rows{{"", "count", "lines", "what"}};
  for (const auto& [key, group] : groups_)
    rows.push_back({std::string(to_string(key.first)), std::to_string(group.count), lines_text(group), key.second});
  return table(rows);
}

} // namespace mc2::cli
