#include "mc2/render/text.hpp"

#include <algorithm>
#include <cstdio>

namespace mc2::render {

std::string padded(std::string text, int width) {
  // UTF-8 continuation bytes take no column.
  const auto columns = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  text.append(static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, width - columns)), ' ');
  return text;
}

std::string time_text(double us) {
  char text[48];
  if (us < 1000)
    std::snprintf(text, sizeof text, "%.1f us", us);
  else if (us < 1e6)
    std::snprintf(text, sizeof text, "%.4g ms", us / 1e3);
  else
    std::snprintf(text, sizeof text, "%.4g s", us / 1e6);
  return text;
}

std::string percent_text(double ratio) {
  char text[48];
  std::snprintf(text, sizeof text, "%.1f %%", ratio * 100);
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
