#include "json_body.hpp"

#include <algorithm>

namespace mc2::server {
namespace {

using planner::Error;
using planner::ErrorCode;
using planner::Result;

/// Deepest nesting of arrays and objects; strings are skipped.
int depth_of(const std::string& text) {
  int depth = 0, deepest = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string) {
      if (c == '\\') ++i;
      if (c == '"') is_in_string = false;
    } else if (c == '"') {
      is_in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

} // namespace

Result<nlohmann::json> parse_object(const std::string& body, std::initializer_list<std::string_view> keys) {
  if (depth_of(body) > kMaxJsonDepth)
    return Error{ErrorCode::Malformed, "body", "is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels"};
  auto json = nlohmann::json::parse(body, nullptr, false);
  if (json.is_discarded()) return Error{ErrorCode::Malformed, "body", "is no JSON document"};
  if (!json.is_object()) return Error{ErrorCode::Malformed, "body", "is no JSON object"};
  for (const auto& [key, value] : json.items())
    if (std::ranges::find(keys, key) == keys.end())
      return Error{ErrorCode::Malformed, key.substr(0, 64), "is no key of this document"};
  return json;
}

} // namespace mc2::server
