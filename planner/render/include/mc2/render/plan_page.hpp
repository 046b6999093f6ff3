#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/plan.hpp"

/// Pages of text. A plan whose timeline contradicts itself (planner::validate_timeline) must not come here.
namespace mc2::render {

/// Both lanes of a timeline, to scale, one line per lane, with a time axis. Blocks alternate in shade and are numbered
/// where they are wide enough.
[[nodiscard]] std::string draw_timeline(const planner::Timeline& timeline, planner::Lane first_lane, int width,
                                        bool color);

/// What there is to know of a plan apart from its timeline: names and texts, its cut first.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> plan_facts(const planner::Plan& plan);

/// What the variants of a plan's runners-up are called beside the plan's own (variant_names()).
[[nodiscard]] std::vector<std::string> runner_up_names(const planner::Plan& plan);

/// The readable page of a plan.
[[nodiscard]] std::string plan_page(const planner::Plan& plan, int width, bool color);

/// Curves and factors of a model.
[[nodiscard]] std::string model_page(const planner::CostModel& model, int width);

} // namespace mc2::render
