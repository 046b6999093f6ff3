#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mc2::cli {

using Facts = std::vector<std::pair<std::string, std::string>>; ///< name, value
using Cells = std::vector<std::vector<std::string>>;            ///< rows of a table, heading first

/// Width of pages that do not depend on the terminal.
inline constexpr int kPageColumns = 80;

/// A paragraph of text for a page, indented by two columns.
[[nodiscard]] std::string remark(const std::string& text, int width);

} // namespace mc2::cli
