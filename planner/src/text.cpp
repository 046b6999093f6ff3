#include "mc2/planner/text.hpp"

#include <locale.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace mc2 {
namespace {

/// Lets printf write points for commas, whatever locale the program has set. Only the calling thread is changed.
class InCLocale {
 public:
  InCLocale() : before_(uselocale(c_locale())) {}
  ~InCLocale() { uselocale(before_); }
  InCLocale(const InCLocale&) = delete;
  InCLocale& operator=(const InCLocale&) = delete;

 private:
  static locale_t c_locale() {
    static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
    return locale;
  }
  locale_t before_;
};

bool is_utf8_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20U || c == 0x7F; }

/// The bytes of the control character beyond ASCII that begins here; 0: none does. Terminals obey some of C1 (U+0080 to
/// U+009F) like ESC sequences. YAML 1.1 takes U+2028 and U+2029 for ends of lines.
std::size_t wide_control_bytes(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.size() >= 2 && rest[0] == '\xC2' && static_cast<unsigned char>(rest[1]) < 0xA0U) return 2;
  return rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9") ? 3 : 0;
}

/// "0.0" for "-0.0", which rounding makes of a small negative number.
std::string without_minus_zero(std::string text) {
  const bool is_zero = text.starts_with("-0") && text.find_first_of("123456789") == std::string::npos;
  return is_zero ? text.substr(1) : text;
}

/// The text with each of these replaced by one space.
std::string without_wide_control(std::string text) {
  for (std::size_t at = text.find_first_of("\xC2\xE2"); at != std::string::npos;
       at = text.find_first_of("\xC2\xE2", at + 1))
    if (const std::size_t bytes = wide_control_bytes(text, at)) text.replace(at, bytes, " ");
  return text;
}

} // namespace

std::string number(double value, const char* format) {
  const InCLocale until_return;
  const auto length = static_cast<std::size_t>(std::snprintf(nullptr, 0, format, value));
  std::string text(length, '\0');
  std::snprintf(text.data(), length + 1, format, value);
  return text;
}

std::string number_text(double value, int digits) {
  std::array<char, 64> text{};
  return {text.data(), std::to_chars(text.begin(), text.end(), value, std::chars_format::general, digits).ptr};
}

std::string percent_text(double ratio, int decimals) {
  std::array<char, 352> text{}; // the largest double has 309 digits
  char* const end = std::to_chars(text.begin(), text.end(), ratio * 100, std::chars_format::fixed, decimals).ptr;
  return without_minus_zero(std::string(text.data(), end)) + " %";
}

std::string time_text(double us) {
  if (us < 1000) return without_minus_zero(number(us, "%.1f us"));
  return us < 1e6 ? number(us / 1e3, "%.4g ms") : number(us / 1e6, "%.4g s");
}

std::string percent_interval_text(double low, double high) { return percent_text(low) + " to " + percent_text(high); }

std::string time_interval_text(double low_us, double high_us) {
  return time_text(low_us) + " to " + time_text(high_us);
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

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> result;
  while (true) {
    const bool is_last = text.find(separator) == std::string_view::npos;
    result.push_back(take_part(text, separator));
    if (is_last) return result;
  }
}

std::string and_text(std::span<const std::string> items) {
  if (items.size() < 2) return list_text(items);
  return list_text(items.first(items.size() - 1)) + " and " + items.back();
}

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

} // namespace mc2
