#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {

/// 11 days: of a longer time the unit or the number is wrong.
inline constexpr std::int64_t kMaxTimeNs = 1'000'000'000'000'000;

inline constexpr std::string_view kAskCollective = "which collective was timed (--collective)";
inline constexpr std::string_view kAskRanks = "how many ranks took part (--ranks)";

/// Where an importer puts what it reads.
class LogSink {
 public:
  LogSink(TimingSet& timings, const ImportHooks& hooks, LogSummary& summary)
      : timings_(timings), hooks_(hooks), summary_(summary) {}

  /// A timing; `text` says what it is. Bad instead when it has no positive time or size.
  void take(std::int64_t line, const Timing& timing, std::string_view text);
  /// Bad where its time is not usable.
  void take(std::int64_t line, FusedTiming timing, std::string_view text);
  void skip(std::int64_t line, std::string_view why);
  void bad(std::int64_t line, std::string_view why);
  /// For the fingerprint; a second value of the same key joins the first.
  void fact(const std::string& key, std::string_view value);
  /// The rank that the log calls itself.
  void rank(std::int64_t rank) noexcept { summary_.rank = rank; }
  /// What must be said before more of the log can be taken.
  void ask(std::string_view question);
  /// That the log may be of a form whose meaning has changed; once for each text.
  void note_newer_format(std::string_view format, std::string_view newest_known);
  /// The collective that the log or the caller names. Where neither does, it is asked for and the line skipped.
  [[nodiscard]] std::optional<planner::Collective> collective_of(std::int64_t line,
                                                                 std::optional<planner::Collective> logged,
                                                                 const ImportAnswers& answers);
  void next_round() noexcept { timings_.next_round(); }

 private:
  void tell(std::int64_t line, Verdict verdict, std::string_view text);

  TimingSet& timings_;
  const ImportHooks& hooks_;
  LogSummary& summary_;
};

} // namespace mc2::profiler
