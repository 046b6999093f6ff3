#include "rule_table.hpp"

#include <algorithm>
#include <set>

namespace mc2::nccl_tuner {
namespace {

using store::NcclRule;

bool is_any_or(int asked, std::size_t found) { return asked < 0 || static_cast<std::size_t>(asked) == found; }

/// Whether `rule` matches whatever `later` does, sizes aside.
bool hides(const NcclRule& rule, const NcclRule& later) {
  const auto covers = [](int wide, int narrow) { return wide < 0 || wide == narrow; };
  return covers(rule.grouped_ops, later.grouped_ops) &&
         covers(rule.has_registered_buffers, later.has_registered_buffers);
}

} // namespace

RuleTable::RuleTable(std::span<const NcclRule> rules, std::size_t ranks, std::size_t nodes) {
  for (const NcclRule& rule : rules)
    if (is_any_or(rule.ranks, ranks) && is_any_or(rule.nodes, nodes)) rules_.push_back(rule);
  for (std::size_t function = 0; function < kFunctionCount; ++function)
    parts_[function] = parts_of(static_cast<int>(function));
}

std::vector<RuleTable::Part> RuleTable::parts_of(int function) const {
  std::set<std::int64_t> starts;
  for (const NcclRule& rule : rules_) {
    if (rule.function != function) continue;
    starts.insert(rule.min_bytes);
    if (rule.max_bytes < INT64_MAX) starts.insert(rule.max_bytes + 1);
  }
  std::vector<Part> parts;
  for (const std::int64_t start : starts) parts.push_back({start, {}});
  for (std::uint32_t number = 0; number < rules_.size(); ++number) {
    const NcclRule& rule = rules_[number];
    if (rule.function != function) continue;
    for (auto part = std::ranges::lower_bound(parts, rule.min_bytes, {}, &Part::first_bytes);
         part != parts.end() && part->first_bytes <= rule.max_bytes; ++part) {
      const auto is_hidden = [&](std::uint32_t earlier) { return hides(rules_[earlier], rule); };
      if (std::ranges::none_of(part->rules, is_hidden)) part->rules.push_back(number);
    }
  }
  return parts;
}

const NcclRule* RuleTable::find(int function, std::int64_t bytes, int grouped_ops,
                                int has_registered_buffers) const noexcept {
  if (function < 0 || static_cast<std::size_t>(function) >= kFunctionCount) return nullptr;
  const std::vector<Part>& parts = parts_[static_cast<std::size_t>(function)];
  const auto above = std::ranges::upper_bound(parts, bytes, {}, &Part::first_bytes);
  if (above == parts.begin()) return nullptr;
  for (const std::uint32_t number : std::prev(above)->rules) {
    const NcclRule& rule = rules_[number];
    if ((rule.grouped_ops < 0 || rule.grouped_ops == grouped_ops) &&
        (rule.has_registered_buffers < 0 || rule.has_registered_buffers == has_registered_buffers))
      return &rule;
  }
  return nullptr;
}

} // namespace mc2::nccl_tuner
