#include "token_in_target.hpp"

#include "http/header_list.hpp"
#include "http/target.hpp"
#include "mc2/store/token.hpp"

namespace mc2::server {
namespace {

bool names_token(std::string_view parameter) {
  return equals_ignoring_case(parameter, "token") || equals_ignoring_case(parameter, "access_token") ||
         equals_ignoring_case(parameter, "authorization");
}

/// Also if the text is percent-encoded.
bool holds_encoded_token(std::string_view text, bool is_query) {
  if (store::holds_token(text)) return true;
  if (text.find('%') == std::string_view::npos) return false; // fast path: every request comes here
  const auto plain = decoded(text, is_query);
  return plain && store::holds_token(plain.value());
}

bool query_has_token(std::string_view query) {
  if (holds_encoded_token(query, true)) return true;
  while (!query.empty()) {
    std::string_view pair = take_part(query, '&');
    const std::string_view written = take_part(pair, '=');
    if (names_token(written)) return true;
    if (written.find('%') == std::string_view::npos) continue;
    const auto name = decoded(written, true);
    if (name && names_token(name.value())) return true;
  }
  return false;
}

} // namespace

bool has_token(std::string_view target) {
  std::string_view query = target;
  const std::string_view path = take_part(query, '?');
  return holds_encoded_token(path, false) || query_has_token(query);
}

std::string without_tokens(std::string_view target) {
  std::string_view query = target;
  const std::string_view path = take_part(query, '?');
  if (holds_encoded_token(path, false)) return "/...";
  return query_has_token(query) ? std::string(path) + "?..." : std::string(target);
}

} // namespace mc2::server
