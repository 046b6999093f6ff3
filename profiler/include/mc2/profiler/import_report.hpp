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

/// Lines of a log that met the same fate.
struct LineGroup {
  std::int64_t count = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> runs; ///< first and last of consecutive lines; the first few
  std::int64_t last_line = 0;                              ///< of the last run, shown or not
};

/// What became of every line of one log, in bounded memory.
class ImportReport {
 public:
  using Key = std::pair<Verdict, std::string>; ///< and what the lines are, or why they were not taken
  using Groups = std::map<Key, LineGroup>;

  static constexpr std::size_t kMaxGroups = 256; ///< lines of further kinds share one group
  static constexpr std::size_t kMaxRuns = 4;     ///< of a group

  void add(const LineVerdict& verdict);
  /// Bad lines come last.
  [[nodiscard]] const Groups& groups() const noexcept { return groups_; }

 private:
  Groups groups_;
  LineGroup* last_group_ = nullptr;
  Key last_key_{};
};

/// Everything that the logs of one import gave, and what they still ask.
struct ImportedLogs {
  TimingSet timings;
  std::map<std::string, std::string> facts;
  std::vector<std::string> questions;
  std::vector<std::string> notes; ///< what may be wrong with them, or count twice
  std::int64_t took_count = 0;
  std::string first_bad;                     ///< "op_summary.csv:7: why (and 1 more)"; empty when no line was bad
  std::map<std::int64_t, std::string> ranks; ///< the first log of each rank that logs call themselves

  /// Joins what a log gave; its timings are there already.
  /// @param name  of the log, for messages
  /// @param device  that the user says the logs are of; they may then name several
  /// Errors: InvalidSpec where logs contradict each other.
  [[nodiscard]] Result<void> add(const std::string& name, const LogSummary& summary, const std::string& device);
  /// Errors: InvalidSpec with what must be said before anything can be taken; CannotFit when nothing could.
  [[nodiscard]] Result<void> require_timings() const;
};

} // namespace mc2::profiler

#pragma GCC visibility pop
