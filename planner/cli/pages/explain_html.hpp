#pragma once

#include <string>

#include "mc2/planner/explanation.hpp"
#include "pages/explain_evidence.hpp"

namespace mc2::cli {

/// One self-contained HTML page, without scripts, fonts, images or links from elsewhere; light or dark as the reader's
/// system is. All text from documents is escaped.
[[nodiscard]] std::string explain_html(const planner::Explanation& explanation, const Evidence& evidence);

} // namespace mc2::cli
