#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mc2::cli {

using Facts = std::vector<std::pair<std::string, std::string>>; ///< name, value
using Cells = std::vector<std::vector<std::string>>;            ///< rows of a table, heading first

/// How wide pages are that do not ask for the terminal's width.
inline constexpr int kPageColumns = 80;

/// Without the mark with which spreadsheets begin a UTF-8 file.
[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text) noexcept;

/// A paragraph two columns in: what a page says beside its tables.
[[nodiscard]] std::string remark(const std::string& text, int width);

} // namespace mc2::cli
