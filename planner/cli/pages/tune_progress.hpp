#pragma once

#include <optional>
#include <string>

#include "mc2/profiler/tune_hooks.hpp"
#include "pages/terminal.hpp"

namespace mc2::cli {

/// Shows the progress of tuning on standard error: a progress line for each step, and lines of text between. Ctrl-C
/// stops the tuning.
class TuneProgressLine {
 public:
  /// Hooks that refer to this object, which must outlive them. After the tuning, clear() removes the last line.
  [[nodiscard]] profiler::TuneHooks hooks();
  void clear() { line_.reset(); }

 private:
  void show(const profiler::Progress& progress);
  void tell(const std::string& text);

  std::string label_;
  std::optional<ProgressLine> line_; ///< the line of the step that label_ names
};

} // namespace mc2::cli
