#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mc2/planner/op_spec.hpp"
#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {

/// 11 days. A longer time means that its unit or number is wrong.
inline constexpr std::int64_t kMaxTimeNs = 1'000'000'000'000'000;

inline constexpr std::string_view kAskCollective = "which collective was timed (--collective)";
inline constexpr std::string_view kAskRanks = "how many ranks took part (--ranks)";

/// Receives what an importer reads: timings, skipped and bad lines, facts and questions.
class LogSink {
 public:
  LogSink(TimingSet& timings, const ImportHooks& hooks, LogSummary& summary, const ImportAnswers& answers = {});

  /// Takes a timing; `text` says what it is. The line counts as bad instead when time or size are not positive or too
  /// large, and as skipped beyond kMaxTimingSizes.
  void take(std::int64_t line, const Timing& timing, std::string_view text);
  /// Takes a fused run. The line counts as bad instead when a time is not usable or contradicts another one of the run,
  /// or when the cut cannot be one of the operator that the user states. It counts as skipped beyond kMaxFusedTimings.
  void take(std::int64_t line, FusedTiming timing, std::string_view text);
  void skip(std::int64_t line, std::string_view why);
  /// Skips a line that the format does not know. Returns whether it is the heading of another tool's table; the reason
  /// says so then.
  bool skip_unknown(std::int64_t line, std::string_view text, std::string_view why);
  void bad(std::int64_t line, std::string_view why);
  /// Adds a fact for the fingerprint; a second value of the same key is appended to the first.
  void fact(const std::string& key, std::string_view value);
  /// Sets the rank that the log names as its own.
  void rank(std::int64_t rank) noexcept { summary_.rank = rank; }
  /// Adds a question that the user must answer before more of the log can be taken.
  void ask(std::string_view question);
  /// Notes, once for each text, that the log's format is newer than the newest one known, so its meaning may differ.
  void note_newer_format(std::string_view format, std::string_view newest_known);
  /// The collective that the log or the caller names. Where neither does, asks for it and skips the line.
  [[nodiscard]] std::optional<planner::Collective> collective_of(std::int64_t line,
                                                                 std::optional<planner::Collective> logged,
                                                                 const ImportAnswers& answers);
  void next_round() noexcept { timings_.next_round(); }

 private:
  void tell(std::int64_t line, Verdict verdict, std::string_view text);
  /// What is wrong with a run as one of the stated operator; empty where nothing is, or none is stated.
  [[nodiscard]] std::string operator_fault(const FusedTiming& timing) const;

  TimingSet& timings_;
  const ImportHooks& hooks_;
  LogSummary& summary_;
  std::optional<planner::OpSpec> op_; ///< the operator that the user states; nothing unless all of it is stated
  std::int64_t block_unit_ = 1;       ///< a matmul of another multiple of rows is no block of the stated kind
  std::string unit_remark_;           ///< the remark on such matmuls
};

} // namespace mc2::profiler
