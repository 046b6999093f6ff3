#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "text.hpp"

namespace mc2::cli {
namespace {

std::atomic<bool> interrupted{false};

extern "C" void on_interrupt(int) {
  if (interrupted.exchange(true)) _exit(130);
  constexpr char kMessage[] = "\nmc2: stopping at the next safe point; press Ctrl-C again to stop at once\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
}

std::string seconds_text(std::chrono::milliseconds time) {
  return number(static_cast<double>(time.count()) / 1000, "%.0f s");
}

} // namespace

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool is_interrupted() noexcept { return interrupted.load(std::memory_order_relaxed); }

bool has_color() { return isatty(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr; }

int terminal_width() {
  winsize size{};
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::clamp<int>(size.ws_col, 60, 120);
}

ProgressLine::ProgressLine(std::string label) : label_(std::move(label)), is_terminal_(isatty(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (is_drawn_) std::fputs("\r\033[K", stderr);
  is_drawn_ = false;
}

void ProgressLine::update(double fraction, std::chrono::milliseconds remaining, const std::string& detail) {
  const auto now = std::chrono::steady_clock::now();
  const auto interval = is_terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
  if (now - last_line_ < interval) return;
  last_line_ = now;
  // The line disappears when the work is done, so it never shows all of it.
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 0.99) * 100);
  if (!is_terminal_) {
    std::fprintf(stderr, "%s: %d %%, about %s left, %s\n", label_.c_str(), percent, seconds_text(remaining).c_str(),
                 detail.c_str());
    return;
  }
  std::string bar(static_cast<std::size_t>(percent / 5), '#');
  bar.resize(20, '.');
  std::fprintf(stderr, "\r\033[K%s [%s] %d %%  %s left  %s", label_.c_str(), bar.c_str(), percent,
               seconds_text(remaining).c_str(), detail.c_str());
  std::fflush(stderr);
  is_drawn_ = true;
}

} // namespace mc2::cli
