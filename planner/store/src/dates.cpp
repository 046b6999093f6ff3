#include "mc2/store/dates.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "mc2/planner/text.hpp"

namespace mc2::store {
namespace {

using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;

constexpr sys_seconds kEarliest = sys_days(std::chrono::year(0) / 1 / 1);
constexpr sys_seconds kLatest = sys_days(std::chrono::year(9999) / 12 / 31);

/// "30d" as a number of seconds; none for a text of another form.
std::optional<std::int64_t> duration_s(const std::string& text) {
  constexpr std::array kUnits{std::pair{'s', 1}, std::pair{'m', 60}, std::pair{'h', 3600}, std::pair{'d', 86'400},
                              std::pair{'w', 604'800}};
  constexpr std::int64_t kMost = 1'000'000'000; // of any unit, so that the number of seconds cannot overflow
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end + 1 != text.data() + text.size() || count < 0 || count > kMost) return std::nullopt;
  for (const auto& [unit, unit_s] : kUnits)
    if (*end == unit) return count * unit_s;
  return std::nullopt;
}

std::string text_of(sys_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text.data();
}

} // namespace

std::string utc_now() { return text_of(std::chrono::floor<seconds>(std::chrono::system_clock::now())); }

Result<std::int64_t> parse_duration_s(const std::string& text, const std::string& field) {
  const auto found = duration_s(text);
  if (found && *found > 0) return *found;
  return Error{ErrorCode::InvalidSpec, field,
               "is \"" + text.substr(0, 64) + "\"; must be a time above 0 such as 12h, 30d or 52w"};
}

std::string later(const std::string& text, std::int64_t further_s) {
  const auto at = moment_in(text);
  return at ? text_of(std::clamp(*at + seconds(further_s), kEarliest, kLatest)) : std::string();
}

Result<std::string> parse_end(const std::string& text, const std::string& field, const std::string& now) {
  const auto refuse = [&](const std::string& what) {
    return Error{ErrorCode::InvalidSpec, field, "is \"" + text.substr(0, 64) + "\"; " + what};
  };
  const auto begin = moment_in(now);
  const auto from_now_s = duration_s(text);
  const auto at = from_now_s && begin ? std::optional(*begin + seconds(*from_now_s)) : moment_in(text);
  if (!at) return refuse("must be a time from now such as 12h or 30d, or a date such as 2027-01-31 (UTC)");
  if (begin && *at <= *begin) return refuse("that is not in the future");
  if (*at > kLatest) return refuse("must be before the year 10000; leave it out for no end");
  return text_of(*at);
}

} // namespace mc2::store
