#include "mc2/planner/text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>

namespace mc2 {

std::string number(double value, const char* format) {
  const auto length = static_cast<std::size_t>(std::snprintf(nullptr, 0, format, value));
  std::string text(length, '\0');
  std::snprintf(text.data(), length + 1, format, value);
  return text;
}

std::string number_text(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return text.data();
}

std::string percent_text(double ratio, int decimals) {
  std::array<char, 352> text{}; // the largest double has 309 digits
  std::snprintf(text.data(), text.size(), "%.*f %%", decimals, ratio * 100);
  return text.data();
}

std::string time_text(double us) {
  if (us < 1000) return number(us, "%.1f us");
  return us < 1e6 ? number(us / 1e3, "%.4g ms") : number(us / 1e6, "%.4g s");
}

std::optional<std::chrono::sys_seconds> moment_in(std::string_view text) noexcept {
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  constexpr std::size_t kDateLength = 10;
  if (text.size() != kForm.size() && text.size() != kDateLength) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (kForm[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != kForm[i]) return std::nullopt;
  const auto part = [text](std::size_t first, std::size_t length) {
    return first < text.size() ? number_in<unsigned>(text.substr(first, length)).value_or(0) : 0;
  };
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(part(0, 4))),
                                         std::chrono::month(part(5, 2)), std::chrono::day(part(8, 2))};
  const unsigned hour = part(11, 2), minute = part(14, 2), second = part(17, 2);
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return number(value, "%.4g ") + kUnits[unit];
}

std::string_view trimmed(std::string_view text) noexcept {
  // Inlined, a comparison for each character: std::string_view::find_first_of() calls memchr() for each.
  constexpr auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view take_part(std::string_view& text, char separator) noexcept {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return trimmed(part);
}

} // namespace mc2
