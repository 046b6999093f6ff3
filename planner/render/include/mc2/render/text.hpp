#pragma once

#include <string>
#include <vector>

namespace mc2::render {

/// An overlap efficiency from 0 to 100 %. Beyond them it is no share of anything: "over 100 %" where the parts alone
/// took longer than beside each other, "none" where the cut is slower than serial.
[[nodiscard]] std::string efficiency_text(double ratio);

/// The text with blanks behind it to so many columns of UTF-8.
[[nodiscard]] std::string padded(std::string text, int width);

/// Rows of cells, aligned in columns with two spaces between; the first row is the heading.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

} // namespace mc2::render
