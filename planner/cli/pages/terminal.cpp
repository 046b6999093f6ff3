#include "pages/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "mc2/planner/text.hpp"

namespace mc2::cli {
namespace {

std::atomic<bool> interrupted{false};

extern "C" void on_interrupt(int signal) {
  if (interrupted.exchange(true)) _exit(130);
  constexpr std::string_view kByKey = "\nmc2: stopping at the next safe point; press Ctrl-C again to stop at once\n";
  constexpr std::string_view kByOthers =
      "\nmc2: asked to end (SIGTERM); stopping at the next safe point\n"; // mpirun, e.g.
  const std::string_view message = signal == SIGTERM ? kByOthers : kByKey;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, message.data(), message.size());
}

std::string_view text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

/// Whether the stream is a terminal that takes more than plain text.
bool can_draw(int stream) { return isatty(stream) && text_of("TERM") != "dumb"; }

/// The width of a terminal; 80 for anything else.
int columns_of(int stream) {
  winsize size{};
  if (!isatty(stream) || ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string seconds_text(std::chrono::milliseconds time) {
  return number(static_cast<double>(time.count()) / 1000, "%.0f s");
}

/// A budget can be used up before the last step ends.
std::string remaining_text(std::chrono::milliseconds time) {
  if (time.count() <= 0) return "ending";
  return (time < std::chrono::seconds(1) ? "less than 1 s" : "about " + seconds_text(time)) + " left";
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

bool has_color() { return can_draw(STDOUT_FILENO) && text_of("NO_COLOR").empty(); }

int terminal_width() { return std::clamp(columns_of(STDOUT_FILENO), 60, 120); }

ProgressLine::ProgressLine(std::string label)
    : label_(std::move(label)), is_terminal_(can_draw(STDERR_FILENO)), start_(std::chrono::steady_clock::now()) {}

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
  // At most 99 %, because the line disappears when the work is done.
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 0.99) * 100);
  if (!is_terminal_) {
    std::fprintf(stderr, "%s: %d %%, %s, %s\n", label_.c_str(), percent, remaining_text(remaining).c_str(),
                 detail.c_str());
    return;
  }
  std::string bar(static_cast<std::size_t>(percent / 10), '#');
  bar.resize(10, '.');
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(now - start_);
  std::string line = label_ + " [" + bar + "] " + std::to_string(percent) + " %, " + seconds_text(elapsed) + ", " +
                     remaining_text(remaining) + "; " + detail;
  // Clipped, because a line that wraps cannot be overwritten.
  line.resize(std::min(line.size(), static_cast<std::size_t>(std::max(columns_of(STDERR_FILENO) - 1, 1))));
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  is_drawn_ = true;
}

void ProgressLine::update(double fraction, const std::string& detail) {
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start_;
  const double remaining_ms = fraction > 0 ? elapsed.count() * (1 - fraction) / fraction : 0;
  update(fraction, std::chrono::milliseconds(static_cast<std::int64_t>(remaining_ms)), detail);
}

} // namespace mc2::cli
