#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mc2/planner/plan_ranges.hpp"

#pragma GCC visibility push(default)

namespace mc2::render {

/// Rows of a table, heading first, with a row for each range.
[[nodiscard]] std::vector<std::vector<std::string>> range_cells(const planner::PlanRanges& ranges);
/// The settings of variants that the rows leave out; empty if they leave out none.
[[nodiscard]] std::string range_settings_text(const planner::PlanRanges& ranges);

/// A range as --m takes it: "512", "512:1024".
[[nodiscard]] std::string m_text(std::int64_t first, std::int64_t last);

/// "3 to 21 %", in whole per cent, as an interval is no more exact.
[[nodiscard]] std::string span_text(double low, double high);

} // namespace mc2::render

#pragma GCC visibility pop
