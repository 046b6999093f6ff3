#pragma once

#include <span>
#include <string>

#include "mc2/planner/explanation.hpp"
#include "mc2/render/markup.hpp"

namespace mc2::render {

/// The class names of a block of a lane; they alternate from block to block.
[[nodiscard]] const char* lane_style(planner::Lane lane, std::size_t block);

/// Both lanes, block by block, on one time axis: predicted, and measured below that if there is a measured timeline.
[[nodiscard]] Markup timeline_chart(const planner::Explanation& explanation);

/// A complete SVG document: the plan's timeline, with `charts`, of the same width, below it.
[[nodiscard]] std::string plan_drawing(const planner::Explanation& explanation, std::span<const Markup> charts);

} // namespace mc2::render
