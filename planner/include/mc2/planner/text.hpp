#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "mc2/planner/error.hpp"

/// Writes and reads numbers, shares, times, sizes and moments of pages, messages and notes, alike in every locale.

#pragma GCC visibility push(default)

namespace mc2 {

/// The value in a printf format for one double, such as "%.2f us". The format must not come from a user.
[[nodiscard]] std::string number(double value, const char* format);

/// The value with `digits` significant digits.
[[nodiscard]] std::string number_text(double value, int digits = 4);

/// "21.8 %" for 0.218. Errors and widths of intervals, which are small, are written with two decimals.
[[nodiscard]] std::string percent_text(double ratio, int decimals = 1);

/// "803.0 us", "12.34 ms", "1.5 s": the unit that reads best.
[[nodiscard]] std::string time_text(double us);

/// "20.9 % to 22.7 %" and "803.0 us to 1.2 ms": from the low end of an interval to the high one.
[[nodiscard]] std::string percent_interval_text(double low, double high);
[[nodiscard]] std::string time_interval_text(double low_us, double high_us);

/// "17 B", "640 KiB", "12.34 GiB": four significant digits of the largest unit that leaves a whole one.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

/// The number that std::from_chars reads from the whole text; nothing if it leaves a rest.
template <typename Number>
[[nodiscard]] std::optional<Number> number_in(std::string_view text) noexcept {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// The UTC moment of a text like "2027-01-31T12:00:00Z", or the start of a day like "2027-01-31", with exactly these
/// numbers of digits. Nothing for another form, and for a day or a time of day that does not exist.
[[nodiscard]] std::optional<std::chrono::sys_seconds> moment_in(std::string_view text) noexcept;

/// The text without white space at either end.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// Foreign text made fit for a one-line message. Control characters become spaces. A text longer than `max_bytes` is
/// cut between characters and ends with "...".
[[nodiscard]] std::string one_line(std::string_view text, std::size_t max_bytes = 160);

/// Whether the text has control characters, which one_line would replace.
[[nodiscard]] bool has_control(std::string_view text) noexcept;

/// one_line() of the text between single quotes.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Removes the part up to `separator`, and the separator, from the text. Returns the part, trimmed.
[[nodiscard]] std::string_view take_part(std::string_view& text, char separator) noexcept;

/// The parts between separators, trimmed; at least one.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

/// "a", "a and b", "a, b and c".
[[nodiscard]] std::string and_text(std::span<const std::string> items);

template <typename T>
concept NoText = !std::convertible_to<T, std::string_view>;

/// "a, b, c" from the text of each item, which `text_of`, a function or a member, gives.
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

/// "a, b, c" from texts or whole numbers.
template <typename Items>
[[nodiscard]] std::string list_text(const Items& items, std::string_view between = ", ") {
  using Item = std::ranges::range_value_t<const Items>;
  if constexpr (std::integral<Item>)
    return list_text(
        items, [](Item number) { return std::to_string(number); }, between);
  else
    return list_text(items, std::identity(), between);
}

/// A pointer to the item for which `text_of`, a function or a member, gives `name`. It points into `items`.
/// Errors: UnknownName for `field`: "unknown <what> 'x'; legal: a, b, c".
template <typename Items, NoText TextOf>
[[nodiscard]] auto find_named(const Items& items, std::string_view name, TextOf text_of, std::string_view field,
                              std::string_view what)
    -> Result<std::add_pointer_t<std::ranges::range_reference_t<const Items>>> {
  const auto found = std::ranges::find(items, name, text_of);
  if (found != std::ranges::end(items)) return &*found;
  return Error{ErrorCode::UnknownName, std::string(field),
               "unknown " + std::string(what) + " " + in_quotes(name) + "; legal: " + list_text(items, text_of)};
}

/// One enumerator and its served name.
template <typename Enum>
struct Name {
  Enum value;
  std::string_view text;
};

/// The name of the enumerator; "unknown" if it has none.
template <typename Enum>
[[nodiscard]] std::string_view name_of(std::span<const Name<Enum>> names, Enum value) noexcept {
  for (const auto& name : names)
    if (name.value == value) return name.text;
  return "unknown";
}

/// The enumerator of the name. Errors: UnknownName for `field`, listing the legal names.
template <typename Enum>
[[nodiscard]] Result<Enum> parse_name(std::span<const Name<Enum>> names, std::string_view text,
                                      std::string_view field) {
  MC2_ASSIGN(const auto* const found, find_named(names, text, &Name<Enum>::text, field, "name"));
  return found->value;
}

} // namespace mc2

#pragma GCC visibility pop
