#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_model.hpp"

namespace mc2::render {

/// An overlap efficiency in percent. Beyond 0 to 100 % the number is not a share of anything, so the text is
/// "over 100 %" (the cut took less time than the longer part alone) or "below 0 %" (it is slower than serial).
[[nodiscard]] std::string efficiency_text(double ratio);

/// The UTF-8 text, padded with blanks on the right to `width` columns.
[[nodiscard]] std::string padded(std::string text, int width);

/// The text broken at blanks into lines of at most `columns` columns. A longer word has a line of its own.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

inline constexpr std::size_t kEveryLine = std::string::npos;

/// The text after `start`, wrapped at `width` columns. Further lines are indented by the length of `start`. If `start`
/// leaves no room, the text does not wrap. If there are more than `most_lines` lines, the last line shown ends with
/// "...", which takes the place of words where needed.
[[nodiscard]] std::string hanging(const std::string& start, std::string_view text, int width,
                                  std::size_t most_lines = kEveryLine);

inline constexpr int kNameColumns = 16;

/// A fact on a page: "  name            text". The text wraps in the columns to the right of the names.
[[nodiscard]] std::string fact_line(const std::string& name, std::string_view text, int width,
                                    int name_columns = kNameColumns, std::size_t most_lines = kEveryLine);

/// Short names for variants that are listed below each other.
struct VariantNames {
  /// In the order of the variants. Settings that all variants share and settings that repeat the variant's name are
  /// left out, e.g. "tree" for tree(algorithm=tree,topology=dgx_h100).
  std::vector<std::string> names;
  std::string common; ///< the settings that all variants share: "topology=dgx_h100"; empty if there are none
};
[[nodiscard]] VariantNames variant_names(std::span<const planner::Variant> variants);

inline constexpr int kAnyWidth = std::numeric_limits<int>::max();

/// Rows of cells, aligned in columns with two spaces before each; the first row is the heading. If the table is wider
/// than `width`, cells in the widest columns wrap between words. A number stays on one line with the word after it.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows, int width);

} // namespace mc2::render
