#pragma once

#include <cstdint>
#include <string>

#include "mc2/planner/plan_ranges.hpp"
#include "pages/text.hpp"

namespace mc2::cli {

/// The plans of a range of m: one row per range, what no range covers, and how much the ranges cost.
[[nodiscard]] std::string ranges_page(const planner::PlanRanges& ranges, int width);

/// One row per range.
[[nodiscard]] Cells range_cells(const planner::PlanRanges& ranges);
/// Which settings of variants the rows leave out; empty where they have all.
[[nodiscard]] std::string range_settings_text(const planner::PlanRanges& ranges);

/// As --m takes it: "512", "512:1024".
[[nodiscard]] std::string m_text(std::int64_t first, std::int64_t last);

/// "3 to 21 %": whole per cent, as a range says no more.
[[nodiscard]] std::string span_text(double low, double high);

} // namespace mc2::cli
