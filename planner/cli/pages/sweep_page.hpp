#pragma once

#include <string>

#include "plan_grid.hpp"

namespace mc2::cli {

/// The readable page of a sweep: a table for each model and kind, with a line for each layer and number of ranks and a
/// column for each m. A cell shows the time that the plan saves. Columns that do not fit into `width` and lines beyond
/// a screen are left out and counted. The reason of each kind of refusal appears once.
[[nodiscard]] std::string sweep_page(const PlanGrid& grid, const PlannedGrid& planned, int width);

} // namespace mc2::cli
