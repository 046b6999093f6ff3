#include "nccl_row_pieces.hpp"

#include <algorithm>

#include "fields.hpp"

namespace mc2::profiler {
namespace {

constexpr std::string_view kMessage = "NCCL "; ///< without the blank before it: rows have many blanks, and no N

/// "node-1:4978:4990": the process and the thread that write a message.
bool is_writer(std::string_view word) {
  return std::ranges::count(word, ':') >= 2 && word.back() >= '0' && word.back() <= '9';
}

/// The cell that a writer's name follows without a blank: a root that there is not, no wrong element, or none counted.
std::string_view cell_before(std::string_view word) {
  for (const std::string_view cell : {"-1", "0", "N/A"})
    if (word.starts_with(cell)) return cell;
  return {};
}

} // namespace

std::string without_inner_tags(std::string_view text) {
  constexpr std::string_view kStream = "<stdout>:";
  std::string result;
  while (true) {
    const std::size_t begin = text.find('['), end = text.find(']', begin == text.npos ? 0 : begin);
    if (begin == text.npos || end == text.npos) return result.append(text);
    std::string_view tag = text.substr(begin + 1, end - begin - 1);
    tag = tag.substr(std::min(tag.find_last_of('@') + 1, tag.size()));
    const bool is_glued = begin > 0 && text[begin - 1] != ' ';
    const bool is_tag = is_glued && !tag.empty() && tag.find_first_not_of("0123456789,") == tag.npos;
    result.append(text.substr(0, is_tag ? begin : end + 1));
    text.remove_prefix(end + 1);
    if (!is_tag) continue;
    result.push_back(' ');
    if (text.starts_with(kStream)) text.remove_prefix(kStream.size());
  }
}

std::optional<std::string> before_message(std::string_view text) {
  const std::size_t message = text.find(kMessage);
  if (message == text.npos || message == 0 || text[message - 1] != ' ') return std::nullopt;
  const auto parts = words(text.substr(0, message));
  const auto writer = std::ranges::find_if(parts, is_writer);
  if (writer == parts.end()) return std::nullopt;
  if (writer == parts.begin()) return std::string();
  const std::string_view cell = cell_before(*writer);
  std::string before(text.data(), writer->data());
  return before.append(cell);
}

bool begins_row(const std::vector<std::string_view>& cells) {
  return cells.size() > 2 && parse_whole(cells[0]) && parse_whole(cells[1]) && find_element_bytes(cells[2]);
}

bool continues_row(const std::vector<std::string_view>& cells) {
  return !cells.empty() && std::ranges::all_of(cells, [](std::string_view cell) {
    return cell == "N/A" || number_in<double>(cell).has_value();
  });
}

} // namespace mc2::profiler
