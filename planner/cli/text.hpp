#pragma once

#include <string_view>

namespace mc2::cli {

/// Without the mark with which spreadsheets begin a UTF-8 file.
[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text) noexcept;

/// Without white space at either end.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

} // namespace mc2::cli
