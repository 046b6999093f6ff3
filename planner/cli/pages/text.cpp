#include "pages/text.hpp"

#include "mc2/render/text.hpp"

namespace mc2::cli {

std::string remark(const std::string& text, int width) { return render::hanging("  ", text, width); }

} // namespace mc2::cli
