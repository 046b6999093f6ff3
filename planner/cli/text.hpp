#pragma once

#include <string>
#include <string_view>

namespace mc2::cli {

/// A number by a format of printf for one double, such as "%.2f us". Formats are the program's own.
[[nodiscard]] std::string number(double value, const char* format);

/// Without the mark with which spreadsheets begin a UTF-8 file.
[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text) noexcept;

/// Without white space at either end.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

} // namespace mc2::cli
