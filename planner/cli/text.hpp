#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mc2::cli {

/// How wide pages are that do not ask for the terminal's width.
inline constexpr std::size_t kPageColumns = 80;

/// Without the mark with which spreadsheets begin a UTF-8 file.
[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text) noexcept;

/// Without white space at either end.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// Lines of at most `columns` of the words that blanks separate; a longer word has a line of its own.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

inline constexpr std::size_t kEveryLine = std::string::npos;

/// Text that wraps at `columns` behind `start`, its further lines as far in as that is long. Where more than
/// `most_lines` follow, the last one's last word makes room for "...".
[[nodiscard]] std::string hanging(const std::string& start, std::string_view text, std::size_t columns,
                                  std::size_t most_lines = kEveryLine);

} // namespace mc2::cli
