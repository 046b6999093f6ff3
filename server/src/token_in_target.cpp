#include "token_in_target.hpp"

#include <charconv>

#include "http/header_list.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/token.hpp"

namespace mc2::server {
namespace {

/// Undoes percent-encoding. Takes a '%' that no two hexadecimal digits follow as it is, so that a malformed part hides
/// nothing.
std::string leniently_decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char value = 0;
    const char* const digits = text.data() + i + 1;
    const bool is_encoded =
        text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    result += is_encoded ? static_cast<char>(value) : text[i];
    if (is_encoded) i += 2;
  }
  return result;
}

bool names_token(std::string_view parameter) {
  return equals_ignoring_case(parameter, "token") || equals_ignoring_case(parameter, "access_token") ||
         equals_ignoring_case(parameter, "authorization");
}

/// Also if the text is percent-encoded.
bool holds_encoded_token(std::string_view text) {
  if (store::holds_token(text)) return true;
  return text.find('%') != std::string_view::npos && store::holds_token(leniently_decoded(text)); // rarely the latter
}

bool query_has_token(std::string_view query) {
  if (holds_encoded_token(query)) return true;
  while (!query.empty()) {
    std::string_view pair = take_part(query, '&');
    const std::string_view written = take_part(pair, '=');
    if (names_token(written)) return true;
    if (written.find('%') != std::string_view::npos && names_token(leniently_decoded(written))) return true;
  }
  return false;
}

} // namespace

bool has_token(std::string_view target) {
  std::string_view query = target;
  const std::string_view path = take_part(query, '?');
  return holds_encoded_token(path) || query_has_token(query);
}

std::string without_tokens(std::string_view target) {
  std::string_view query = target;
  const std::string_view path = take_part(query, '?');
  if (holds_encoded_token(path)) return "/...";
  return query_has_token(query) ? std::string(path) + "?..." : std::string(target);
}

} // namespace mc2::server
