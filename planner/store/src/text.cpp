#include "mc2/store/text.hpp"

#include <utility>

namespace mc2::store {
namespace {

bool is_utf8_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20U || c == 0x7F; }

/// Whether a C1 control character (U+0080 to U+009F) begins here. Terminals obey some of them like ESC sequences.
bool is_c1(std::string_view text, std::size_t at) {
  return text[at] == '\xC2' && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0U;
}

/// The text with each C1 control character replaced by one space.
std::string without_c1(std::string text) {
  for (std::size_t at = text.find('\xC2'); at != std::string::npos; at = text.find('\xC2', at + 1))
    if (is_c1(text, at)) text.replace(at, 2, " ");
  return text;
}

} // namespace

bool has_control(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size(); ++at)
    if (is_control(text[at]) || is_c1(text, at)) return true;
  return false;
}

std::string one_line(std::string_view text, std::size_t max_bytes) {
  std::size_t length = text.size();
  if (length > max_bytes) {
    length = max_bytes;
    while (length > 0 && is_utf8_continuation(text[length])) --length;
  }
  std::string result(text.substr(0, length));
  for (char& c : result)
    if (is_control(c)) c = ' ';
  result = without_c1(std::move(result));
  return length < text.size() ? result + "..." : result;
}

std::string in_quotes(std::string_view text) { return std::string("'").append(one_line(text, 64)).append("'"); }

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell.append(c == '"' ? 2 : 1, c);
  return cell + "\"";
}

} // namespace mc2::store
