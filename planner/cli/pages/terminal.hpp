#pragma once

#include <chrono>
#include <string>

#include "mc2/profiler/sweep.hpp"

namespace mc2::cli {

/// From the first Ctrl-C on: work stops at the next safe point, keeping what was measured. A second Ctrl-C ends the
/// program at once; whatever the store acknowledged is durable either way.
void install_interrupt_handler();
[[nodiscard]] bool is_interrupted() noexcept;

/// Colours only on a terminal that is not TERM=dumb, and never when NO_COLOR is set and not empty (no-color.org).
[[nodiscard]] bool has_color();
/// Columns to draw in: the terminal's width within 60..120, or 80.
[[nodiscard]] int terminal_width();

/// A bar with the time taken and left on a terminal, never wider than it; a plain line every few seconds elsewhere; on
/// standard error.
class ProgressLine {
 public:
  explicit ProgressLine(std::string label);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// @param fraction of the work done, 0..1
  void update(double fraction, std::chrono::milliseconds remaining, const std::string& detail);
  /// Of work that goes on as fast as it went since the line was made.
  void update(double fraction, const std::string& detail);

 private:
  void clear();

  std::string label_;
  bool is_terminal_;
  bool is_drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_line_{};
};

} // namespace mc2::cli
