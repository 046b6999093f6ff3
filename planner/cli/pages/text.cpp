#include "pages/text.hpp"

#include "mc2/render/text.hpp"

namespace mc2::cli {

std::string_view without_byte_order_mark(std::string_view text) noexcept {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kSpace = " \t\r";
  const auto first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string remark(const std::string& text, int width) {
  return render::hanging("  ", text, static_cast<std::size_t>(width));
}

} // namespace mc2::cli
