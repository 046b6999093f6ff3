#pragma once

#include <string>

#include "plan_grid.hpp"

namespace mc2::cli {

/// What a sweep shows to people: one table for each model and kind, a line for each layer and ranks, a column for each
/// m, and in it the time that the plan saves. Columns that do not fit into `width`, and lines beyond a screen, are left
/// out and counted; every refusal's reason stands once.
[[nodiscard]] std::string sweep_page(const PlanGrid& grid, const PlannedGrid& planned, int width);

} // namespace mc2::cli
