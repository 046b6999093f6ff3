#include "pages/text.hpp"

#include "mc2/render/text.hpp"

namespace mc2::cli {

std::string_view without_byte_order_mark(std::string_view text) noexcept {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string remark(const std::string& text, int width) { return render::hanging("  ", text, width); }

} // namespace mc2::cli
