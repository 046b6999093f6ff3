#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "json_pieces.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::profiler {

/// Base of the SAX handlers for JSON logs, which are never held in memory as a whole. Counts the nesting depth.
class JsonHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool number_integer(number_integer_t value) override { return whole(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return value > static_cast<std::uint64_t>(INT64_MAX) || whole(static_cast<std::int64_t>(value));
  }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool end_object() override { return close(); }
  bool parse_error(std::size_t, const std::string& last, const nlohmann::detail::exception& failure) override {
    const std::string_view why = failure.what(); // a text that is cut behind an N is no NaN
    const bool is_no_value =
        why.find("invalid literal") != std::string_view::npos || why.find("invalid number") != std::string_view::npos;
    const bool is_no_number = is_no_value && (last.ends_with('N') || last.ends_with('I') || last.ends_with("na"));
    if (fault_.empty() && is_no_number)
      fault_ = "a value is NaN or Infinity, which JSON does not have; write a number or null";
    if (fault_.empty()) fault_ = "the JSON document ends or breaks here; the log is cut or damaged";
    return false;
  }
  /// Called after the last value, for what can be decided only then.
  virtual void finish() {}

  /// Why reading ended before the log did; empty when it did not.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

 protected:
  /// Called for a whole number. Numbers beyond std::int64_t are ignored.
  virtual bool whole(std::int64_t) { return true; }

  bool open() {
    constexpr std::size_t kMaxDepth = 32;
    if (++depth_ <= kMaxDepth) return true;
    fault_ = "is nested deeper than 32 levels";
    return false;
  }
  bool close() {
    --depth_;
    return true;
  }
  [[nodiscard]] std::size_t depth() const noexcept { return depth_; }

 private:
  std::size_t depth_ = 0;
  std::string fault_;
};

/// Start and duration of an event of a trace, in ns.
struct TraceTimes {
  std::optional<std::int64_t> start, time;

  /// Sets the value of the key "ts" or "dur"; other keys are ignored. Pass nothing for a value that is out of range or
  /// no number.
  void set(std::string_view key, std::optional<std::chrono::nanoseconds> value) {
    const auto count = value ? std::optional(value->count()) : std::nullopt;
    if (key == "ts") start = count;
    if (key == "dur") time = count;
  }
  void set(std::string_view key, std::int64_t us) {
    const bool is_in_range = us > INT64_MIN / 1000 && us < INT64_MAX / 1000;
    set(key, is_in_range ? std::optional(std::chrono::nanoseconds(us * 1000)) : std::nullopt);
  }
  /// The end of the event. Nothing where start or time is missing, the time is not above 0, or the end is out of range.
  [[nodiscard]] std::optional<std::int64_t> end() const {
    std::int64_t end = 0;
    if (!start || !time || *time <= 0 || __builtin_add_overflow(*start, *time, &end)) return std::nullopt;
    return end;
  }
};

/// Reads a log into the handler. Where the JSON breaks, reading ends and the line counts as bad.
inline void read_json(JsonPieces& pieces, const LogReader& reader, JsonHandler& handler, LogSink& sink) {
  const bool is_whole = nlohmann::json::sax_parse(pieces.begin(), JsonPieces::end(), &handler);
  handler.finish();
  if (is_whole || !reader.fault().empty()) return; // import_log() reports the reader's own fault
  sink.bad(pieces.line(), handler.fault().empty() ? "is no JSON document" : handler.fault());
}

/// Reads the whole log with a new Handler. @param arguments  the handler's arguments before the pieces and the sink
template <typename Handler, typename... Arguments>
[[nodiscard]] Result<void> read_json_log(LogReader& reader, LogSink& sink, const Arguments&... arguments) {
  JsonPieces pieces(reader);
  Handler handler(arguments..., pieces, sink);
  read_json(pieces, reader, handler, sink);
  return {};
}

} // namespace mc2::profiler
