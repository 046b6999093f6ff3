#pragma once

#include <span>
#include <string>

#include "mc2/planner/explanation.hpp"
#include "mc2/render/markup.hpp"

namespace mc2::render {

/// Class names of a lane's blocks, which alternate.
[[nodiscard]] const char* lane_style(planner::Lane lane, std::size_t block);

/// Both lanes, block by block, predicted and - where there is one - measured, on one time axis.
[[nodiscard]] Markup timeline_chart(const planner::Explanation& explanation);

/// A complete SVG document: the plan's timeline, and below it other charts of the same width.
[[nodiscard]] std::string plan_drawing(const planner::Explanation& explanation, std::span<const Markup> charts);

} // namespace mc2::render
