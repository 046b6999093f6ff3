#pragma once

#include <chrono>
#include <string>

#include "mc2/profiler/sweep.hpp"

namespace mc2::cli {

/// Makes the first Ctrl-C set is_interrupted(), upon which work stops at the next safe point and keeps what was
/// measured. A second Ctrl-C ends the program at once. What the store has acknowledged is durable either way.
void install_interrupt_handler();
[[nodiscard]] bool is_interrupted() noexcept;

/// Whether to print colours: only on a terminal that is not TERM=dumb, and never when NO_COLOR is set and not empty
/// (no-color.org).
[[nodiscard]] bool has_color();
/// Columns to draw in: the terminal's width within 60..120, or 80.
[[nodiscard]] int terminal_width();

/// Shows progress on standard error: on a terminal a bar with the time taken and left, no wider than the terminal;
/// elsewhere a plain line every few seconds.
class ProgressLine {
 public:
  explicit ProgressLine(std::string label);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// @param fraction of the work done, 0..1
  void update(double fraction, std::chrono::milliseconds remaining, const std::string& detail);
  /// Estimates the remaining time from the speed since the line was made.
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
