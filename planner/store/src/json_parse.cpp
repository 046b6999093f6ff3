#include "json_parse.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mc2/planner/text.hpp"

namespace mc2::store {
namespace {

/// An error with the field "line 3, column 14" and the rest of nlohmann's text, which reads
/// "[json.exception.parse_error.101] parse error at line 3, column 14: syntax error while ...".
Error syntax_error(std::string_view text) {
  if (const auto end = text.find("] "); end != std::string_view::npos) text.remove_prefix(end + 2);
  constexpr std::string_view kPrefix = "parse error at ";
  if (!text.starts_with(kPrefix)) return {ErrorCode::Malformed, "", one_line(text)};
  text.remove_prefix(kPrefix.size());
  const auto colon = text.find(": ");
  if (colon == std::string_view::npos) return {ErrorCode::Malformed, "", one_line(text)};
  return {ErrorCode::Malformed, std::string(text.substr(0, colon)), "is no JSON: " + one_line(text.substr(colon + 2))};
}

/// Builds a document and enforces unique keys and the limits, which nlohmann's own builder does not.
class BoundedBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit BoundedBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return add(value) != nullptr; }
  bool string(string_t& value) override { return add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return refuse("binary values are not JSON"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [position, is_new] = open_.back().container->emplace(name, nullptr);
    if (!is_new) return refuse("key " + in_quotes(name) + " appears twice in one object; keep one");
    open_.back().slot = &*position;
    open_.back().key = name;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    error_ = syntax_error(error.what());
    return false;
  }

  [[nodiscard]] Result<Json> take() {
    if (error_) return *error_;
    return std::move(root_);
  }

 private:
  struct Frame {
    Json* container = nullptr;
    Json* slot = nullptr; ///< in an object: the place of the next value
    std::string key = {}; ///< in an object: the key of the next value
  };

  /// Adds a value; returns its place in the document, or nullptr if a limit refuses it.
  template <typename Value>
  Json* add(Value&& value) {
    if (++value_count_ > limits_.max_value_count)
      return refuse("more than " + std::to_string(limits_.max_value_count) + " values in one document"), nullptr;
    if (open_.empty()) return &(root_ = Json(std::forward<Value>(value)));
    Frame& frame = open_.back();
    if (frame.container->is_object()) return &(*frame.slot = Json(std::forward<Value>(value)));
    if (frame.container->size() >= limits_.max_array_length)
      return refuse("more than " + std::to_string(limits_.max_array_length) + " elements in one array"), nullptr;
    frame.container->push_back(Json(std::forward<Value>(value)));
    return &frame.container->back();
  }

  bool open(Json&& container) {
    if (open_.size() >= static_cast<std::size_t>(limits_.max_depth))
      return refuse("nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    Json* const place = add(std::move(container));
    if (place == nullptr) return false;
    open_.push_back({.container = place});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  bool refuse(std::string message) {
    error_ = Error{ErrorCode::Malformed, path(), std::move(message)};
    return false;
  }

  /// The JSON path of the next value. The outer containers already hold their child; the innermost does not yet.
  [[nodiscard]] std::string path() const {
    std::string result;
    for (const Frame& frame : open_) {
      const bool is_innermost = &frame == &open_.back();
      if (frame.container->is_array())
        result.append("[").append(std::to_string(frame.container->size() - (is_innermost ? 0 : 1))).append("]");
      else if (!is_innermost)
        result.append(result.empty() ? "" : ".").append(one_line(frame.key, 64));
    }
    return result;
  }

  JsonLimits limits_;
  Json root_;
  std::vector<Frame> open_; ///< containers from the root to the innermost
  std::size_t value_count_ = 0;
  std::optional<Error> error_;
};

} // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    return Error{ErrorCode::Malformed, "",
                 "the document has " + std::to_string(text.size()) + " bytes; legal: at most " +
                     std::to_string(limits.max_bytes)};
  // nlohmann takes a 0 byte for the end of the text.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos)
    return Error{ErrorCode::Malformed, "", "has a 0 byte at offset " + std::to_string(zero) + ", which no JSON has"};
  BoundedBuilder builder(limits);
  // The result may be ignored: the builder keeps the error.
  static_cast<void>(Json::sax_parse(text.begin(), text.end(), &builder));
  return builder.take();
}

} // namespace mc2::store
