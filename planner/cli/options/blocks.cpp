#include "options/blocks.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace mc2::cli {
namespace {

constexpr std::size_t kMaxBlockCount = 1024;

/// Spaces around it are left out.
std::optional<std::int64_t> parse_positive(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  text = text.substr(first, text.find_last_not_of(' ') + 1 - first);
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

Error unreadable(std::string_view part) {
  return {ErrorCode::InvalidSpec, "--blocks",
          "cannot read '" + std::string(part.substr(0, 32)) +
              "'; write positive row counts separated by commas, e.g. 512,896,896 or 512,4x896, at most 1024 blocks"};
}

} // namespace

Result<planner::Cut> parse_blocks(std::string_view text) {
  planner::Cut cut;
  while (true) {
    const std::size_t end = text.find_first_of(",+");
    const std::string_view part = text.substr(0, end);
    const std::size_t cross = part.find('x');
    const auto count =
        cross == std::string_view::npos ? std::optional<std::int64_t>(1) : parse_positive(part.substr(0, cross));
    const auto rows = parse_positive(cross == std::string_view::npos ? part : part.substr(cross + 1));
    if (!count || !rows || static_cast<std::uint64_t>(*count) > kMaxBlockCount - cut.block_rows.size())
      return unreadable(part);
    cut.block_rows.insert(cut.block_rows.end(), static_cast<std::size_t>(*count), *rows);
    if (end == std::string_view::npos) return cut;
    text.remove_prefix(end + 1);
  }
}

} // namespace mc2::cli
