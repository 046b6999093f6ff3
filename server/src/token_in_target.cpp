#include "token_in_target.hpp"

#include "http/header_list.hpp"
#include "http/target.hpp"
#include "mc2/planner/text.hpp"
#include "mc2/store/token.hpp"

namespace mc2::server {
namespace {

/// The text with what is well encoded undone, so that a malformed part hides nothing.
std::string plain(std::string_view text) { return undo_percents(text, false).text; }

bool names_token(std::string_view parameter) {
  return equals_ignoring_case(parameter, "token") || equals_ignoring_case(parameter, "access_token") ||
         equals_ignoring_case(parameter, "authorization");
}

/// Also if the text is percent-encoded.
bool holds_encoded_token(std::string_view text) {
  if (store::holds_token(text)) return true;
  return text.find('%') != std::string_view::npos && store::holds_token(plain(text)); // rarely the latter
}

bool query_has_token(std::string_view query) {
  if (holds_encoded_token(query)) return true;
  while (!query.empty()) {
    std::string_view pair = take_part(query, '&');
    const std::string_view written = take_part(pair, '=');
    if (names_token(written)) return true;
    if (written.find('%') != std::string_view::npos && names_token(plain(written))) return true;
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
