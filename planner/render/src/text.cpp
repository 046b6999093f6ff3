#include "mc2/render/text.hpp"

#include <algorithm>

#include "mc2/planner/text.hpp"

namespace mc2::render {

std::string efficiency_text(double ratio) {
  constexpr double kRounding = 0.0005; // what shows as 100.0 % is told as that
  if (ratio > 1 + kRounding) return "over 100 %";
  return ratio < 0 ? "none" : percent_text(ratio);
}

std::string padded(std::string text, int width) {
  // UTF-8 continuation bytes take no column.
  const auto columns = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  text.append(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, width - columns)), ' ');
  return text;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<int> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], static_cast<int>(row[i].size()));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) line += " " + padded(row[i], widths[i]) + " ";
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

} // namespace mc2::render
