#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/finder/plan_llm.hpp"
#include "mc2/planner/llm_plan.hpp"
#include "pages/text.hpp"

namespace mc2::cli {

/// What the page and the HTML report share.
inline constexpr const char* kStepsTitle =
    "time of these layers, all of them, in one step of m tokens, and what fusing saves";
struct LlmNotes {
  std::vector<std::string> layers, steps, all; ///< below the table of layers, of steps, and at the end
};
[[nodiscard]] std::string model_title(const planner::LlmPlan& plan);
[[nodiscard]] std::string model_facts(const planner::LlmPlan& plan);
[[nodiscard]] Cells layer_cells(const planner::LlmPlan& plan);
[[nodiscard]] Cells step_cells(const planner::LlmPlan& plan);
[[nodiscard]] LlmNotes model_notes(const planner::LlmPlan& plan);

/// Layers with the m that they are fused at, then the time of steps in both forms.
[[nodiscard]] std::string model_page(const planner::LlmPlan& plan, int width);

/// One row for each range of each layer (RFC 4180), and for each layer without one its reason.
[[nodiscard]] std::string model_csv(const planner::LlmPlan& plan);

/// As mc2 tune --shapes reads it: every legal site's operator at the longest step, and at each step of few rows that
/// are cut by columns; equal ones once.
[[nodiscard]] std::string model_shapes(const finder::LlmQuestion& asked, std::span<const planner::LlmSite> sites);

} // namespace mc2::cli
