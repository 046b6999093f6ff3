#include "text.hpp"

namespace mc2::store {
namespace {

bool is_utf8_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20U || c == 0x7F; }

} // namespace

std::string one_line(std::string_view text, std::size_t max_bytes) {
  std::size_t length = text.size();
  if (length > max_bytes) {
    length = max_bytes;
    while (length > 0 && is_utf8_continuation(text[length])) --length;
  }
  std::string result(text.substr(0, length));
  for (char& c : result)
    if (is_control(c)) c = ' ';
  return length < text.size() ? result + "..." : result;
}

std::string in_quotes(std::string_view text) { return std::string("'").append(one_line(text, 64)).append("'"); }

} // namespace mc2::store
