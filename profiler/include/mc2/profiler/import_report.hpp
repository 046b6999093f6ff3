#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/profiler/importer.hpp"

#pragma GCC visibility push(default)

namespace mc2::profiler {

[[nodiscard]] std::string_view to_string(Verdict verdict) noexcept;

/// Lines of a log with the same verdict and text.
struct LineGroup {
  std::int64_t count = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> runs; ///< first and last line of each run; at most kMaxRuns runs
  std::int64_t last_line = 0;                              ///< the last line added, whether in `runs` or not
};

/// What the importer did with every line of one log, in bounded memory.
class ImportReport {
 public:
  using Key = std::pair<Verdict, std::string>; ///< the text says what the lines are, or why they were not taken
  using Groups = std::map<Key, LineGroup>;

  static constexpr std::size_t kMaxGroups = 256; ///< further texts share one group for each verdict
  static constexpr std::size_t kMaxRuns = 4;     ///< runs that a group keeps

  void add(const LineVerdict& verdict);
  /// Bad lines come last.
  [[nodiscard]] const Groups& groups() const noexcept { return groups_; }

 private:
  Groups groups_;
  LineGroup* last_group_ = nullptr;
  Key last_key_{};
};

/// All results of the logs of one import, and the questions that are still open.
struct ImportedLogs {
  TimingSet timings;
  std::map<std::string, std::string> facts;
  std::vector<std::string> questions;
  std::vector<std::string> notes; ///< what may be wrong with the logs, or count twice
  std::int64_t took_count = 0;
  std::string first_bad;                     ///< "op_summary.csv:7: why (and 1 more)"; empty when no line was bad
  std::map<std::int64_t, std::string> ranks; ///< for each rank that a log names as its own: the first such log

  /// Adds a log's summary. Its timings are already in `timings`.
  /// @param name  the log's name, for messages
  /// Errors: InvalidSpec where the facts of two logs contradict each other.
  [[nodiscard]] Result<void> add(const std::string& name, const LogSummary& summary);
  /// Succeeds when at least one timing was taken. Errors: InvalidSpec with the open questions, or CannotFit when there
  /// are none.
  [[nodiscard]] Result<void> require_timings() const;
};

} // namespace mc2::profiler

#pragma GCC visibility pop
