#include "mc2/render/ranges.hpp"

#include <cmath>

#include "mc2/render/text.hpp"

namespace mc2::render {
namespace {

using planner::PlanRange;
using planner::PlanRanges;

VariantNames names_of(const PlanRanges& ranges) {
  std::vector<planner::Variant> variants;
  for (const PlanRange& range : ranges.ranges) variants.push_back(range.rule.variant);
  return variant_names(variants);
}

std::string interval_text(const PlanRange& range) {
  const auto& interval = range.benefit_interval;
  return interval ? span_text(interval->low, interval->high) : "-";
}

} // namespace

std::string m_text(std::int64_t first, std::int64_t last) {
  return first == last ? std::to_string(first) : std::to_string(first) + ":" + std::to_string(last);
}

std::string span_text(double low, double high) {
  const auto whole = [](double ratio) { return std::to_string(std::lround(ratio * 100)); };
  const std::string first = whole(low), last = whole(high);
  return first == last ? first + " %" : first + " to " + last + " %";
}

std::vector<std::vector<std::string>> range_cells(const PlanRanges& ranges) {
  std::vector<std::vector<std::string>> rows{{"m", "plan", "variant", "gain", "90 %"}};
  const auto names = names_of(ranges).names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const PlanRange& range = ranges.ranges[i];
    rows.push_back({m_text(range.first_m, range.last_m), range.rule.text(), names[i],
                    span_text(range.least_benefit, range.most_benefit), interval_text(range)});
  }
  return rows;
}

std::string range_settings_text(const PlanRanges& ranges) {
  const std::string common = names_of(ranges).common;
  return common.empty() ? "" : "every variant has " + common;
}

} // namespace mc2::render
