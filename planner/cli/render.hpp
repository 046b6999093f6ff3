#pragma once

#include <string>
#include <vector>

#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/plan.hpp"
#include "mc2/profiler/sweep.hpp"

namespace mc2::cli {

/// "12.34 ms", "803.0 us": four significant digits and the unit that reads best.
[[nodiscard]] std::string time_text(double us);
/// "21.8 %"
[[nodiscard]] std::string percent_text(double ratio);

/// Rows of cells, aligned in columns with two spaces between; the first row is the heading.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

/// Both lanes of a timeline, to scale, one line per lane, with a time axis. Blocks alternate in shade and are numbered
/// where they are wide enough.
[[nodiscard]] std::string draw_timeline(const planner::Timeline& timeline, planner::Lane first_lane, int width,
                                        bool color);

/// The readable page of a plan.
[[nodiscard]] std::string plan_page(const planner::Plan& plan, int width, bool color);

/// Curves and factors of a model.
[[nodiscard]] std::string model_page(const planner::CostModel& model);

/// What a sweep measured, one row per case.
[[nodiscard]] std::string sweep_page(const profiler::SweepSummary& summary);

} // namespace mc2::cli
