#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace mc2::store {

/// Foreign text made fit for a one-line message: control characters become spaces and everything past `max_bytes` is
/// cut off, between characters, with "...".
[[nodiscard]] std::string one_line(std::string_view text, std::size_t max_bytes = 160);

/// Whether one_line would replace anything.
[[nodiscard]] bool has_control(std::string_view text) noexcept;

/// one_line between single quotes.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// The text as a cell, in double quotes where it needs them (RFC 4180).
[[nodiscard]] std::string csv_cell(const std::string& text);

} // namespace mc2::store

#pragma GCC visibility pop
