#include "pages/ranges_page.hpp"

#include <algorithm>

#include "mc2/planner/text.hpp"
#include "mc2/render/ranges.hpp"
#include "mc2/render/text.hpp"

namespace mc2::cli {
namespace {

using planner::PlanRange;
using planner::PlanRanges;
using planner::Provenance;

/// "65:360, 8192:16384": the ranges of m whose predictions are extrapolated; empty if there are none.
std::string extrapolated_text(const PlanRanges& ranges) {
  std::vector<std::string> texts;
  for (const PlanRange& range : ranges.ranges)
    if (range.provenance == Provenance::Extrapolated) texts.push_back(render::m_text(range.first_m, range.last_m));
  return list_text(texts);
}

} // namespace

std::string ranges_page(const PlanRanges& ranges, int width) {
  const std::string last_m = std::to_string(ranges.op.m);
  std::string title = ranges.op.text();
  title.replace(title.find("m=" + last_m), 2 + last_m.size(), "m=" + render::m_text(ranges.first_m, ranges.op.m));
  std::string page = title + "\n" + remark("machine  " + ranges.fingerprint.label(), width) + "\n" +
                     render::table(render::range_cells(ranges), width) + "\n";
  if (const std::string settings = render::range_settings_text(ranges); !settings.empty())
    page += remark(settings, width);
  if (planner::traits_of(ranges.op.kind).has_row_shards)
    page += remark("blocks are " + planner::cut_axis_text(ranges.op), width);
  for (const planner::PlanGap& gap : ranges.gaps)
    page += remark("no plan for m of " + render::m_text(gap.first_m, gap.last_m) + ": " + gap.reason, width);
  if (const std::string m = extrapolated_text(ranges); !m.empty())
    page +=
        remark("EXTRAPOLATED for some or all m of " + m + ": blocks, or serial, lie outside what was measured", width);
  return page + remark("gain: predicted time saved, as a share of serial; at each of the " +
                           std::to_string(ranges.planned_count) + " m, its plan is predicted at most " +
                           percent_text(ranges.loss(), 2) + " slower than the plan of that m alone",
                       width);
}

} // namespace mc2::cli
