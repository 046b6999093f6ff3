#pragma once

#include <span>
#include <string>
#include <vector>

#include "mc2/finder/plan_llm.hpp"
#include "mc2/planner/llm_plan.hpp"
#include "pages/text.hpp"

namespace mc2::cli {

/// The parts that the page and the HTML report share.
inline constexpr const char* kStepsTitle = "total time of these layers in one step of m tokens, and what fusing saves";
struct LlmNotes {
  std::vector<std::string> layers, steps, all; ///< below the table of layers, below that of steps, at the end
};
[[nodiscard]] std::string model_title(const planner::LlmPlan& plan);
[[nodiscard]] std::string model_facts(const planner::LlmPlan& plan);
[[nodiscard]] Cells layer_cells(const planner::LlmPlan& plan);
[[nodiscard]] Cells step_cells(const planner::LlmPlan& plan);
[[nodiscard]] LlmNotes model_notes(const planner::LlmPlan& plan);

/// The readable page: layers with the m at which to fuse them, then the time of steps in both forms.
[[nodiscard]] std::string model_page(const planner::LlmPlan& plan, int width);

/// A table (RFC 4180) with a row for each range of each layer, and for a layer without ranges a row with the reason.
[[nodiscard]] std::string model_csv(const planner::LlmPlan& plan);

/// A table of shapes for mc2 tune --shapes: the operator of every legal site at the longest step, and at each step with
/// so few rows that columns are cut. Equal operators appear once.
[[nodiscard]] std::string model_shapes(const finder::LlmQuestion& asked, std::span<const planner::LlmSite> sites);

} // namespace mc2::cli
