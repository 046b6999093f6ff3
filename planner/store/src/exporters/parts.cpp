#include "exporters/parts.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "mc2/planner/text.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::store {
namespace {

constexpr std::size_t kLineBytes = 200;

/// The text of one comment line. Backslashes become slashes: one at the end would make the next line part of it.
std::string comment_line(const std::string& text) {
  std::string line = one_line(text, kLineBytes);
  std::replace(line.begin(), line.end(), '\\', '/');
  return line;
}

/// " (90 % interval 10.2 % to 14.0 %)".
std::string interval_text(const char* level, double low, double high) {
  return " (" + std::string(level) + " interval " + percent_interval_text(low, high) + ")";
}

/// Leaves out what plans of an mc2 before 0.2 lack, so that exports of these still read back.
std::string measured_line(const planner::Validation& v) {
  std::string line = "measured: fused " + time_text(v.fused_us);
  if (v.spread) line += " (" + time_interval_text(v.spread->fused_low_us, v.spread->fused_high_us) + ")";
  line += ", one after the other " + time_text(v.serial_us);
  if (v.spread) line += " (" + time_interval_text(v.spread->serial_low_us, v.spread->serial_high_us) + ")";
  line += ", gain " + percent_text(v.benefit);
  if (v.spread) line += interval_text("95 %", v.benefit_low, v.benefit_high);
  return line + " in " + std::to_string(v.pair_count) + " pairs" + (v.measured_at.empty() ? "" : ", " + v.measured_at);
}

} // namespace

std::vector<BlockGroup> block_groups(const planner::Cut& cut) {
  std::vector<BlockGroup> groups;
  for (const std::int64_t rows : cut.block_rows) {
    if (groups.empty() || groups.back().rows != rows) groups.push_back({rows, 0});
    ++groups.back().count;
  }
  return groups;
}

std::vector<std::string> provenance_lines(const planner::Plan& plan) {
  const auto& makespan = plan.makespan;
  std::vector<std::string> lines{
      plan.op.text() + ": " + plan.cut.text() +
          (plan.is_cut() ? " " + std::string(to_string(planner::cut_axis(plan.op))) : "") + ", variant " +
          plan.variant.text(),
      "predicted " + time_text(makespan.us) + " (90 % interval " +
          time_interval_text(makespan.low_us, makespan.high_us) + "), one after the other " +
          time_text(plan.serial_us) + ", gain " + percent_text(plan.benefit()) +
          (plan.benefit_interval ? interval_text("90 %", plan.benefit_interval->low, plan.benefit_interval->high) : ""),
      std::string(to_string(makespan.provenance)) + (makespan.reason.empty() ? "" : ": " + makespan.reason) +
          "; strategy " + plan.strategy,
      "machine: " + plan.fingerprint.label()};
  if (plan.validation) lines.push_back(measured_line(*plan.validation));
  std::transform(lines.begin(), lines.end(), lines.begin(), comment_line);
  return lines;
}

std::vector<std::string> provenance_lines(const planner::PlanRanges& ranges) {
  std::vector<std::string> lines{ranges.op.text() + ", from m=" + std::to_string(ranges.first_m) + " on",
                                 "predicted: at each of " + std::to_string(ranges.planned_count) + " m at most " +
                                     percent_text(ranges.loss(), 2) + " slower than the plan of that m alone; " +
                                     std::string(to_string(ranges.provenance())),
                                 "machine: " + ranges.fingerprint.label()};
  for (const planner::PlanGap& gap : ranges.gaps)
    lines.push_back("no plan for m of " + std::to_string(gap.first_m) + " to " + std::to_string(gap.last_m) + ": " +
                    gap.reason);
  std::transform(lines.begin(), lines.end(), lines.begin(), comment_line);
  return lines;
}

std::string number_cell(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

Result<std::vector<ExportItem>> read_documents(std::string_view text, std::string_view marker) {
  std::vector<ExportItem> items;
  for (std::size_t at = text.find(marker); at != std::string_view::npos; at = text.find(marker, at)) {
    at += marker.size();
    MC2_ASSIGN(auto plan, decode_plan(text.substr(at, text.find('\n', at) - at)));
    items.push_back({std::move(plan)});
  }
  if (!items.empty()) return items;
  return Error{ErrorCode::Malformed, "",
               "holds no plan ('" + std::string(marker) + "'); only what mc2 export wrote can be read back"};
}

} // namespace mc2::store
