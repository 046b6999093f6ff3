#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "mc2/planner/error.hpp"

/// How numbers, shares, times, sizes and moments read in pages, messages and notes, and are read; in every locale
/// alike.

#pragma GCC visibility push(default)

namespace mc2 {

/// By a format of printf for one double, such as "%.2f us"; formats are the program's own.
[[nodiscard]] std::string number(double value, const char* format);

/// So many significant digits.
[[nodiscard]] std::string number_text(double value, int digits = 4);

/// "21.8 %" of 0.218; errors and widths of intervals, which are small, have two decimals.
[[nodiscard]] std::string percent_text(double ratio, int decimals = 1);

/// "803.0 us", "12.34 ms", "1.5 s": the unit that reads best.
[[nodiscard]] std::string time_text(double us);

/// "17 B", "640 KiB", "12.34 GiB": four significant digits of the largest unit that leaves a whole one.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

/// The number that the whole text is, as std::from_chars reads it.
template <typename Number>
[[nodiscard]] std::optional<Number> number_in(std::string_view text) noexcept {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// The moment that "2027-01-31T12:00:00Z" or "2027-01-31" (as it begins) is, UTC, with as many digits as there; nothing
/// for another form, and for a day or a time of day that there is not.
[[nodiscard]] std::optional<std::chrono::sys_seconds> moment_in(std::string_view text) noexcept;

/// Without white space at either end.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// The part up to `separator`, trimmed, which is taken off the text together with it.
[[nodiscard]] std::string_view take_part(std::string_view& text, char separator) noexcept;

template <typename T>
concept NoText = !std::convertible_to<T, std::string_view>;

/// "a, b, c" of what is the text of each item: a function or a member.
template <typename Items, NoText TextOf>
[[nodiscard]] std::string list_text(const Items& items, TextOf text_of, std::string_view between = ", ") {
  std::string all;
  for (bool is_first = true; const auto& item : items) {
    if (!is_first) all += between;
    all += std::invoke(text_of, item);
    is_first = false;
  }
  return all;
}

/// "a, b, c" of texts.
template <typename Texts>
[[nodiscard]] std::string list_text(const Texts& texts, std::string_view between = ", ") {
  return list_text(texts, std::identity(), between);
}

/// The item of that name, which is what `text_of`, a function or a member, gives. The items outlive the answer.
/// Errors: UnknownName for `field`: "unknown <what> 'x'; legal: a, b, c".
template <typename Items, NoText TextOf>
[[nodiscard]] auto find_named(const Items& items, std::string_view name, TextOf text_of, std::string_view field,
                              std::string_view what)
    -> Result<std::add_pointer_t<std::ranges::range_reference_t<const Items>>> {
  const auto found = std::ranges::find(items, name, text_of);
  if (found != std::ranges::end(items)) return &*found;
  return Error{ErrorCode::UnknownName, std::string(field),
               "unknown " + std::string(what) + " '" + std::string(name.substr(0, 64)) +
                   "'; legal: " + list_text(items, text_of)};
}

} // namespace mc2

#pragma GCC visibility pop
