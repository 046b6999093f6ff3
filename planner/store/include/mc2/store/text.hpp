#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace mc2::store {

/// The text without the byte order mark that spreadsheets write at the start of a UTF-8 file.
[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text) noexcept;

/// Why decimal text is no whole number, or no number, within low..high, and what is legal; empty if it is one.
[[nodiscard]] std::string complaint_about(const std::string& text, std::int64_t low, std::int64_t high);
[[nodiscard]] std::string complaint_about(const std::string& text, double low, double high);

} // namespace mc2::store

#pragma GCC visibility pop
