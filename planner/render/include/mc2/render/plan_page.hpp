#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/plan.hpp"

/// Pages of text. If a plan has a timeline, it must be one that planner::validate_timeline accepts.
namespace mc2::render {

/// Draws both lanes of a timeline to scale, one line per lane, above a time axis. Blocks alternate in shade and carry
/// their numbers where they are wide enough.
[[nodiscard]] std::string draw_timeline(const planner::Timeline& timeline, planner::Lane first_lane, int width,
                                        bool color);

/// The facts of a plan apart from its timeline, as names and texts. The cut is the first.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> plan_facts(const planner::Plan& plan);

/// Says that a measured time lies outside the plan's predicted interval; empty where it does not, or nothing is
/// predicted.
[[nodiscard]] std::string outside_note(const planner::Plan& plan, double measured_us);

/// The table of a plan's runners-up.
[[nodiscard]] std::string runner_up_table(const planner::Plan& plan, int width);

/// Short names for the variants of a plan's runners-up, as variant_names() gives them together with the plan's variant.
[[nodiscard]] std::vector<std::string> runner_up_names(const planner::Plan& plan);

/// The readable page of a plan.
[[nodiscard]] std::string plan_page(const planner::Plan& plan, int width, bool color);

/// The readable page of a model: the curves and factors of each variant.
[[nodiscard]] std::string model_page(const planner::CostModel& model, int width);

} // namespace mc2::render
