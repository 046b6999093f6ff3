#pragma once

#include <optional>
#include <string>

#include "mc2/profiler/tune_hooks.hpp"
#include "pages/terminal.hpp"

namespace mc2::cli {

/// Shows a tuning on standard error: a progress line for each of its steps, and lines of text between. Ctrl-C stops it.
class TuneProgressLine {
 public:
  /// *this outlives them. Where nothing is tuned any more, clear() takes the last line away.
  [[nodiscard]] profiler::TuneHooks hooks();
  void clear() { line_.reset(); }

 private:
  void show(const profiler::TuneProgress& progress);
  void tell(const std::string& text);

  std::string label_;
  std::optional<ProgressLine> line_; ///< of the step that label_ names
};

} // namespace mc2::cli
