#include "access_log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <condition_variable>
#include <ctime>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "context.hpp"

namespace mc2::cli {
namespace {

/// Collects lines, which a thread of its own writes many at a time. A system call and a woken thread for each line
/// would cost more than the answer that the line is about.
class GatheringSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  GatheringSink() : writer_([this](const std::stop_token& ends) { write_until(ends); }) {}
  ~GatheringSink() override {
    writer_.request_stop();
    writer_.join();
    write(take());
  }

 private:
  static constexpr std::size_t kMostBytes = 4 << 20; ///< of waiting lines, e.g. for a stopped terminal
  static constexpr std::chrono::milliseconds kInterval{100};

  void sink_it_(const spdlog::details::log_msg& message) override {
    if (lines_.size() + message.payload.size() >= kMostBytes) {
      ++dropped_count_;
      return;
    }
    lines_.append(message.payload.data(), message.payload.size()).push_back('\n');
  }
  void flush_() override {}

  std::string take() {
    const std::lock_guard lock(mutex_);
    if (dropped_count_ > 0) lines_ += "{\"dropped\":" + std::to_string(std::exchange(dropped_count_, 0)) + "}\n";
    return std::exchange(lines_, {});
  }

  /// If standard error is closed or full, lines are lost, but no answers.
  static void write(const std::string& lines) {
    for (std::size_t written = 0; written < lines.size();) {
      const ssize_t count = ::write(STDERR_FILENO, lines.data() + written, lines.size() - written);
      if (count <= 0) return;
      written += static_cast<std::size_t>(count);
    }
  }

  void write_until(const std::stop_token& ends) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!never.wait_for(lock, ends, kInterval, [&] { return ends.stop_requested(); })) write(take());
  }

  std::string lines_;              ///< under the base's mutex
  std::int64_t dropped_count_ = 0; ///< under the base's mutex
  std::jthread writer_;            ///< last, because it uses the members above
};

/// Whether nothing in a text has to be escaped, as in most texts.
bool is_plain(std::string_view text) {
  for (const char c : text)
    if (c < 0x20 || c > 0x7E || c == '"' || c == '\\') return false;
  return true;
}

void append_text(std::string& line, std::string_view key, std::string_view text) {
  line.append(",\"").append(key).append("\":");
  if (is_plain(text))
    line.append("\"").append(text).append("\"");
  else
    line += nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

template <typename Number>
void append_number(std::string& line, std::string_view key, Number number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  line.append(",\"").append(key).append("\":").append(digits.data(), end);
}

/// utc_now(), made anew only once a second.
const std::string& this_second() {
  thread_local std::time_t second = 0;
  thread_local std::string text;
  if (const std::time_t now = std::time(nullptr); now != second) {
    second = now;
    text = utc_now();
  }
  return text;
}

} // namespace

std::string to_json_line(const server::AccessRecord& record, std::string_view time) {
  constexpr std::size_t kUsualLength = 320;
  std::string line;
  line.reserve(kUsualLength);
  line.append("{\"time\":\"").append(time).append("\"");
  append_text(line, "client", record.client);
  append_text(line, "method", record.method);
  append_text(line, "target", record.target);
  append_number(line, "status", record.status);
  append_number(line, "bytes", record.body_bytes);
  append_number(line, "took_us", static_cast<std::int64_t>(record.took_us));
  append_text(line, "request_id", record.request_id);
  if (!record.token_id.empty()) append_text(line, "token", record.token_id);
  return line += '}';
}

server::AccessLog make_access_log() {
  // the copies of the log share it
  auto logger = std::make_shared<spdlog::logger>("access", std::make_shared<GatheringSink>());
  return [logger](const server::AccessRecord& record) { logger->info(to_json_line(record, this_second())); };
}

} // namespace mc2::cli
