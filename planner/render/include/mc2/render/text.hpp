#pragma once

#include <string>
#include <vector>

namespace mc2::render {

/// "12.34 ms", "803.0 us": four significant digits and the unit that reads best.
[[nodiscard]] std::string time_text(double us);
/// "21.8 %"
[[nodiscard]] std::string percent_text(double ratio);

/// The text with blanks behind it to so many columns of UTF-8.
[[nodiscard]] std::string padded(std::string text, int width);

/// Rows of cells, aligned in columns with two spaces between; the first row is the heading.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

} // namespace mc2::render
