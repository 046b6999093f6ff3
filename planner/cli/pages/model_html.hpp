#pragma once

#include <string>

#include "mc2/planner/llm_plan.hpp"

namespace mc2::cli {

/// The page of `mc2 model` as one HTML file. Adds a chart of what fusing saves, and every range of every layer.
[[nodiscard]] std::string model_html(const planner::LlmPlan& plan);

} // namespace mc2::cli
