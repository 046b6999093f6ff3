#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/cost_model.hpp"

namespace mc2::render {

/// An overlap efficiency from 0 to 100 %. Beyond them it is no share of anything: "over 100 %" where the parts alone
/// took longer than beside each other, "below 0 %" where the cut is slower than serial.
[[nodiscard]] std::string efficiency_text(double ratio);

/// The text with blanks behind it to so many columns of UTF-8.
[[nodiscard]] std::string padded(std::string text, int width);

/// Lines of at most `columns` of the words that blanks separate; a longer word has a line of its own.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

inline constexpr std::size_t kEveryLine = std::string::npos;

/// Text that wraps at `width` columns behind `start`, its further lines as far in as that is long; where `start` leaves
/// no room, it does not wrap. Where it has more than `most_lines`, the last one of them ends with "...", without the
/// words that leave no room for it.
[[nodiscard]] std::string hanging(const std::string& start, std::string_view text, int width,
                                  std::size_t most_lines = kEveryLine);

inline constexpr int kNameColumns = 16;

/// "  name            text": a fact on a page. Its text hangs behind the columns of the names.
[[nodiscard]] std::string fact_line(const std::string& name, std::string_view text, int width,
                                    int name_columns = kNameColumns, std::size_t most_lines = kEveryLine);

/// What variants are called where they stand below each other.
struct VariantNames {
  /// In their order, without the settings that all have alike and those that repeat the name, e.g. "tree" of
  /// tree(algorithm=tree,topology=dgx_h100).
  std::vector<std::string> names;
  std::string common; ///< the settings that all have alike: "topology=dgx_h100"; empty where there are none
};
[[nodiscard]] VariantNames variant_names(std::span<const planner::Variant> variants);

inline constexpr int kAnyWidth = std::numeric_limits<int>::max();

/// Rows of cells, aligned in columns with two spaces between; the first row is the heading. Where that is wider than
/// `width`, the widest columns wrap their cells' words; a number stays on one line with what follows it.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows, int width);

} // namespace mc2::render
