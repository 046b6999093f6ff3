#pragma once

#include <cstdint>
#include <string>

#include "mc2/planner/plan_ranges.hpp"
#include "pages/text.hpp"

namespace mc2::cli {

/// The readable page of the plans for a range of m: a row for each range, the m that no range covers, and what the
/// ranges cost.
[[nodiscard]] std::string ranges_page(const planner::PlanRanges& ranges, int width);

/// A table with a row for each range.
[[nodiscard]] Cells range_cells(const planner::PlanRanges& ranges);
/// The settings of variants that the rows leave out; empty if they leave out none.
[[nodiscard]] std::string range_settings_text(const planner::PlanRanges& ranges);

/// A range as --m takes it: "512", "512:1024".
[[nodiscard]] std::string m_text(std::int64_t first, std::int64_t last);

/// "3 to 21 %", in whole per cent, as an interval is no more exact.
[[nodiscard]] std::string span_text(double low, double high);

} // namespace mc2::cli
