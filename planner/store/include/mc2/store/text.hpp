#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace mc2::store {

/// Foreign text made fit for a one-line message. Control characters become spaces. A text longer than `max_bytes` is
/// cut between characters and ends with "...".
[[nodiscard]] std::string one_line(std::string_view text, std::size_t max_bytes = 160);

/// Whether the text has control characters, which one_line would replace.
[[nodiscard]] bool has_control(std::string_view text) noexcept;

/// one_line() of the text between single quotes.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// The text as a cell of CSV, in double quotes if it needs them (RFC 4180).
[[nodiscard]] std::string csv_cell(const std::string& text);

} // namespace mc2::store

#pragma GCC visibility pop
