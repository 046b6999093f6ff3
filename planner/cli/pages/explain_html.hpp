#pragma once

#include <string>

#include "mc2/planner/explanation.hpp"
#include "pages/explain_evidence.hpp"

namespace mc2::cli {

/// One self-contained HTML page: no script, font, image or link from elsewhere, light or dark as the reader's system
/// is. Nothing that stands in a document can become markup.
[[nodiscard]] std::string explain_html(const planner::Explanation& explanation, const Evidence& evidence);

} // namespace mc2::cli
