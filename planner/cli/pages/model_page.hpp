#pragma once

#include <span>
#include <string>

#include "mc2/planner/llm_plan.hpp"

namespace mc2::cli {

/// Layers with the m that they are cut at, then the time of steps in both forms.
[[nodiscard]] std::string model_page(const planner::LlmPlan& plan, int width);

/// One row for each range of each layer (RFC 4180), and for each layer without one its reason.
[[nodiscard]] std::string model_csv(const planner::LlmPlan& plan);

/// As mc2 tune --shapes reads it: every legal site's operator, equal ones once.
[[nodiscard]] std::string model_shapes(std::span<const planner::LlmSite> sites);

} // namespace mc2::cli
