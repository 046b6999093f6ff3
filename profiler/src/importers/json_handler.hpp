#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "json_pieces.hpp"
#include "log_reader.hpp"
#include "log_sink.hpp"

namespace mc2::profiler {

/// Of the values of a JSON log, which is never held whole: what is common to all such logs.
class JsonHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool end_object() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    if (fault_.empty()) fault_ = "the JSON document ends or breaks here; the log is cut or damaged";
    return false;
  }
  /// What is known only at the end.
  virtual void finish() {}

  /// Why reading ended before the log did.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

 protected:
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

/// A log that breaks is read up to there, and the sink told.
inline void read_json(JsonPieces& pieces, const LogReader& reader, JsonHandler& handler, LogSink& sink) {
  const bool is_whole = nlohmann::json::sax_parse(pieces.begin(), JsonPieces::end(), &handler);
  handler.finish();
  if (is_whole || !reader.fault().empty()) return; // the reader's own fault is told with the log's end
  sink.bad(pieces.line(), handler.fault().empty() ? "is no JSON document" : handler.fault());
}

} // namespace mc2::profiler
