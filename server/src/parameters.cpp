#include "parameters.hpp"

namespace mc2::server {
namespace {

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

} // namespace

std::string as_parameters(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const bool is_option = text.substr(i).starts_with("--") && i + 2 < text.size() && is_lower(text[i + 2]);
    if (!is_option) {
      result += text[i++];
      continue;
    }
    for (i += 2; i < text.size() && (is_lower(text[i]) || text[i] == '-'); ++i)
      result += text[i] == '-' ? '_' : text[i];
  }
  return result;
}

Error as_parameters(const Error& error) {
  return {error.code, as_parameters(error.field), as_parameters(error.message)};
}

} // namespace mc2::server
