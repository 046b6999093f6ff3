#include "mc2/render/text.hpp"

#include <algorithm>

#include "mc2/planner/text.hpp"

namespace mc2::render {

std::string efficiency_text(double ratio) {
  constexpr double kRounding = 0.0005; // a ratio that rounds to 100.0 % is not "over 100 %"
  if (ratio > 1 + kRounding) return "over 100 %";
  return ratio < 0 ? "below 0 %" : percent_text(ratio);
}

std::string padded(std::string text, int width) {
  // UTF-8 continuation bytes take no column.
  const auto columns = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  text.append(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, width - columns)), ' ');
  return text;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > columns) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    at = end + 1;
  }
  return lines;
}

namespace {

std::vector<std::string> first_lines(std::vector<std::string> lines, std::size_t count, std::size_t columns) {
  constexpr std::string_view kMore = " ...";
  if (lines.size() <= count) return lines;
  lines.resize(count);
  std::string& last = lines.back();
  for (std::size_t blank = last.rfind(' '); last.size() + kMore.size() > columns && blank != std::string::npos;
       blank = last.rfind(' '))
    last.erase(blank);
  last += kMore;
  return lines;
}

} // namespace

std::string hanging(const std::string& start, std::string_view text, int width, std::size_t most_lines) {
  const auto columns = static_cast<std::size_t>(std::max(width, 0));
  const std::size_t room = columns > start.size() ? columns - start.size() : std::string::npos;
  std::string page;
  for (const auto& line : first_lines(wrapped(text, room), most_lines, room))
    page += (page.empty() ? start : std::string(start.size(), ' ')) + line + "\n";
  return page;
}

std::string fact_line(const std::string& name, std::string_view text, int width, int name_columns,
                      std::size_t most_lines) {
  return hanging("  " + padded(name, name_columns), text, width, most_lines);
}

VariantNames variant_names(std::span<const planner::Variant> variants) {
  VariantNames result;
  planner::Variant common = variants.empty() ? planner::Variant() : variants.front();
  for (const planner::Variant& variant : variants)
    std::erase_if(common.fields, [&](const auto& field) {
      const auto same = variant.fields.find(field.first);
      return same == variant.fields.end() || same->second != field.second;
    });
  for (planner::Variant variant : variants) {
    std::erase_if(variant.fields, [&](const auto& field) {
      return field.second == variant.name || common.fields.contains(field.first);
    });
    result.names.push_back(variant.text());
  }
  std::erase_if(common.fields, [&](const auto& field) { return field.second == common.name; });
  result.common = list_text(common.fields, [](const auto& field) { return field.first + "=" + field.second; });
  return result;
}

namespace {

constexpr std::size_t kGap = 2; ///< before each column

struct ColumnWidth {
  std::size_t now = 0;   ///< starts as the longest cell's width, then shrinks
  std::size_t least = 0; ///< width of the longest word
};

constexpr char kFixedBlank = '\0'; ///< stands for a blank at which a cell must not wrap

/// The lines of a wrapped cell. A number stays together with the word after it: a unit, a percent sign, a block length.
std::vector<std::string> cell_lines(std::string text, std::size_t columns) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 1; i + 1 < text.size(); ++i)
    if (text[i] == ' ' &&
        ((is_digit(text[i - 1]) && text[i + 1] != '+') || (text[i - 1] == 'x' && is_digit(text[i + 1]))))
      text[i] = kFixedBlank;
  auto lines = wrapped(text, columns);
  for (std::string& line : lines) std::ranges::replace(line, kFixedBlank, ' ');
  return lines;
}

std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& word : cell_lines(text, 1)) longest = std::max(longest, word.size());
  return longest;
}

std::vector<ColumnWidth> column_widths(const std::vector<std::vector<std::string>>& rows, std::size_t page_width) {
  std::vector<ColumnWidth> widths;
  std::size_t total = 0;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i].now = std::max(widths[i].now, row[i].size());
      widths[i].least = std::max(widths[i].least, longest_word(row[i]));
    }
  }
  for (const ColumnWidth& each : widths) total += kGap + each.now;
  const auto shrinkable = [](const ColumnWidth& each) { return each.now > each.least ? each.now : 0; };
  for (; total > page_width; --total) {
    const auto widest = std::ranges::max_element(widths, {}, shrinkable);
    if (widest == widths.end() || shrinkable(*widest) == 0) break;
    --widest->now;
  }
  return widths;
}

} // namespace

std::string table(const std::vector<std::vector<std::string>>& rows, int width) {
  const auto widths = column_widths(rows, static_cast<std::size_t>(std::max(width, 0)));
  std::string text;
  for (const auto& row : rows) {
    std::vector<std::vector<std::string>> cells;
    std::size_t line_count = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.push_back(cell_lines(row[i], widths[i].now));
      line_count = std::max(line_count, cells.back().size());
    }
    for (std::size_t line = 0; line < line_count; ++line) {
      std::string drawn;
      for (std::size_t i = 0; i < cells.size(); ++i)
        drawn += std::string(kGap, ' ') +
                 padded(line < cells[i].size() ? cells[i][line] : "", static_cast<int>(widths[i].now));
      drawn.erase(drawn.find_last_not_of(' ') + 1);
      text += drawn + "\n";
    }
  }
  return text;
}

} // namespace mc2::render
