#pragma once

#include <string>
#include <vector>

#include "explain_curves.hpp"
#include "mc2/planner/explanation.hpp"

namespace mc2::cli {

/// A complete SVG document: the plan's timeline, and below it each lane's cost curve where a model gave one.
[[nodiscard]] std::string export_image(const planner::Explanation& explanation, const std::vector<CurveEvidence>& curves);

} // namespace mc2::cli
