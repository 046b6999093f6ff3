#include "mc2/store/text.hpp"

#include <utility>

namespace mc2::store {
namespace {

bool is_utf8_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20U || c == 0x7F; }

/// The bytes of the control character beyond ASCII that begins here; 0: none does. Terminals obey some of C1 (U+0080 to
/// U+009F) like ESC sequences. YAML 1.1 takes U+2028 and U+2029 for ends of lines.
std::size_t wide_control_bytes(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.size() >= 2 && rest[0] == '\xC2' && static_cast<unsigned char>(rest[1]) < 0xA0U) return 2;
  return rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9") ? 3 : 0;
}

/// The text with each of these replaced by one space.
std::string without_wide_control(std::string text) {
  for (std::size_t at = text.find_first_of("\xC2\xE2"); at != std::string::npos;
       at = text.find_first_of("\xC2\xE2", at + 1))
    if (const std::size_t bytes = wide_control_bytes(text, at)) text.replace(at, bytes, " ");
  return text;
}

} // namespace

bool has_control(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size(); ++at)
    if (is_control(text[at]) || wide_control_bytes(text, at) > 0) return true;
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
  result = without_wide_control(std::move(result));
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
