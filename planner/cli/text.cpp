#include "text.hpp"

#include <algorithm>

namespace mc2::cli {

std::string_view without_byte_order_mark(std::string_view text) noexcept {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kSpace = " \t\r";
  const auto first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > columns) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    at = end + 1;
  }
  return lines;
}

namespace {

std::vector<std::string> first_lines(std::vector<std::string> lines, std::size_t count) {
  if (lines.size() <= count) return lines;
  lines.resize(count);
  std::string& last = lines.back();
  const std::size_t blank = last.rfind(' ');
  last.erase(blank == std::string::npos ? last.size() - std::min<std::size_t>(last.size(), 4) : blank);
  last += " ...";
  return lines;
}

} // namespace

std::string hanging(const std::string& start, std::string_view text, std::size_t columns, std::size_t most_lines) {
  const std::size_t room = columns > start.size() ? columns - start.size() : std::string::npos;
  std::string page;
  for (const auto& line : first_lines(wrapped(text, room), most_lines))
    page += (page.empty() ? start : std::string(start.size(), ' ')) + line + "\n";
  return page;
}

} // namespace mc2::cli
