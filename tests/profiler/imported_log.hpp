#pragma once

#include <SQLiteCpp/Database.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/profiler/importer.hpp"

namespace mc2::profiler {

/// The import's verdict on one line of a log.
struct SaidOfLine {
  std::int64_t line = 0;
  Verdict verdict = Verdict::Skipped;
  std::string text;
};

/// The result of importing one log.
struct ImportedLog {
  Result<LogSummary> summary = Error{};
  TimingSet timings;
  std::vector<SaidOfLine> lines;

  /// "number: text" of the first line with that verdict; empty when there is none.
  [[nodiscard]] std::string first(Verdict verdict) const {
    for (const SaidOfLine& said : lines)
      if (said.verdict == verdict) return std::to_string(said.line) + ": " + said.text;
    return "";
  }
};

[[nodiscard]] inline ImportedLog import_text(std::string_view text, const ImportAnswers& answers = {},
                                             std::string_view format = {}) {
  ImportedLog imported;
  ImportHooks hooks;
  hooks.on_line = [&](const LineVerdict& said) {
    imported.lines.push_back({said.line, said.verdict, std::string(said.text)});
  };
  const auto source = memory_log(text);
  imported.summary = import_log(*source, format, answers, imported.timings, hooks);
  return imported;
}

/// The bytes of the SQLite file that this SQL creates.
[[nodiscard]] inline std::string database_text(const std::string& sql) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / ("msprof_" + std::to_string(getpid()) + ".db");
  std::filesystem::remove(path);
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql);
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  std::filesystem::remove(path);
  return text.str();
}

[[nodiscard]] inline std::string read_log(const std::string& name) {
  const std::ifstream stream(MC2_SOURCE_DIR "/data/logs/" + name, std::ios::binary);
  EXPECT_TRUE(stream) << name;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// One text per timing, ordered by size: "all_reduce x4 1048576 B 21500 ns" (x4: ranks, 0 if unknown), or "matmul 4096
/// 8192 3072 f16 803000 ns" (m, n, k).
[[nodiscard]] inline std::vector<std::string> timings_text(const TimingSet& timings) {
  std::vector<std::string> texts;
  for (const auto& [key, group] : timings.groups()) {
    std::vector<TimedRound> rounds = group.kept;
    for (const TimedEvent& event : group.events) rounds.push_back(event.shortest);
    for (const TimedRound& timed : rounds) {
      const std::string time = std::to_string(timed.time.count()) + " ns";
      if (key.component == planner::Component::Collective)
        texts.push_back(std::string(planner::to_string(key.collective)) + " x" + std::to_string(key.world_size) + " " +
                        std::to_string(key.message_bytes) + " B " + time);
      else
        texts.push_back("matmul " + std::to_string(key.m) + " " + std::to_string(key.n) + " " + std::to_string(key.k) +
                        " " + std::string(planner::to_string(*key.dtype)) + " " + time);
    }
  }
  return texts;
}

} // namespace mc2::profiler
