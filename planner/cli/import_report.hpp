#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "context.hpp"
#include "mc2/profiler/importer.hpp"

namespace mc2::cli {

/// Lines of a log that met the same fate, in bounded memory.
struct LineGroup {
  std::int64_t count = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> runs; ///< first and last of consecutive lines; the first few
  std::int64_t last_line = 0;                              ///< of the last run, shown or not
};

/// What became of every line of one log: grouped for the terminal, one by one in a file where that is wanted.
class ImportReport {
 public:
  /// @param every_line  may be null
  ImportReport(std::string file, std::ofstream* every_line) : file_(std::move(file)), every_line_(every_line) {}

  void add(const profiler::LineVerdict& verdict);
  /// A table: verdict, lines, what they are. Bad lines come last.
  [[nodiscard]] std::string text() const;

 private:
  std::string file_;
  std::ofstream* every_line_;
  std::map<std::pair<profiler::Verdict, std::string>, LineGroup, std::less<>> groups_;
  LineGroup* last_group_ = nullptr;
  std::pair<profiler::Verdict, std::string> last_key_{};
};

[[nodiscard]] std::string_view to_string(profiler::Verdict verdict) noexcept;

} // namespace mc2::cli
