#include "mc2/planner/plan_ranges.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "strategies/range_search.hpp"

namespace mc2::planner {
namespace {

using strategies::Choice;
using strategies::RangeSearch;

/// Neighbouring m have nearly the same best cut: rules are taken from every m that is so much larger than the last.
constexpr double kRuleSpacing = 1.005;

OpSpec with_m(OpSpec op, std::int64_t m) {
  op.m = m;
  return op;
}

Error m_error(const std::string& message) { return {ErrorCode::InvalidSpec, "m", message}; }

std::string m_text(std::int64_t first, std::int64_t last) {
  return first == last ? std::to_string(first) : std::to_string(first) + " to " + std::to_string(last);
}

/// A rule, and the cost of its variant in the model.
struct PricedRule {
  CutRule rule;
  const VariantCost* cost = nullptr;
};

/// Covers m from the first on by ranges, each as long as any rule lets it be.
class Cover {
 public:
  /// Every m planned, unless it is stopped.
  Cover(const RangeSearch& search, std::vector<std::int64_t> m) : search_(search), m_(std::move(m)) {
    best_.reserve(m_.size());
    for (const std::int64_t one : m_) {
      if (search_.is_stopped()) break;
      best_.push_back(search_.best(one, best_.empty() ? nullptr : &best_.back()));
    }
    m_.resize(best_.size());
    double next = 0;
    for (std::size_t i = 0; i < m_.size(); ++i) {
      if (static_cast<double>(m_[i]) < next) continue;
      next = static_cast<double>(m_[i]) * kRuleSpacing;
      add_rules(best_[i]);
    }
  }

  /// @param label  as of plan_ranges()
  [[nodiscard]] std::vector<PlanRange> ranges(const std::function<Plan(Plan)>& label) {
    std::vector<PlanRange> result;
    for (std::size_t first = 0; first < m_.size() && !search_.is_stopped();) {
      add_rules(best_[first]);
      const auto [rule, end] = longest_from(first);
      result.push_back(described(rule, first, end, label));
      first = end;
    }
    return result;
  }

 private:
  void add_rules(const Choice& choice) {
    for (const std::int64_t least : {search_.min_block_rows(*choice.cost), choice.odd_length()})
      add_rule(choice.rule(least), choice.cost);
  }
  void add_rule(const CutRule& rule, const VariantCost* cost) {
    const auto key = std::tuple(cost, rule.schedule, rule.long_rows, rule.min_odd_rows, rule.is_odd_first);
    if (known_.insert(key).second) rules_.push_back({rule, cost});
  }

  /// The rule's choice at an m where it may stand for the best one.
  [[nodiscard]] std::optional<Choice> stand_in(const PricedRule& priced, std::size_t i) const {
    const Choice& best = best_[i];
    if (priced.rule.is_cut() && !best.is_cut()) return std::nullopt;
    const auto choice = search_.apply(priced.rule, *priced.cost, m_[i]);
    if (!choice || choice->score_us > best.score_us * (1 + kRangeTolerance)) return std::nullopt;
    return choice;
  }
  [[nodiscard]] std::size_t end_of(const PricedRule& priced, std::size_t first) const {
    std::size_t end = first;
    while (end < m_.size() && stand_in(priced, end)) ++end;
    return end;
  }
  /// The best choice's own rule covers its m, so there is one.
  [[nodiscard]] std::pair<PricedRule, std::size_t> longest_from(std::size_t first) const {
    std::pair<PricedRule, std::size_t> longest{{}, first};
    for (const PricedRule& priced : rules_)
      if (const std::size_t end = end_of(priced, first); end > longest.second) longest = {priced, end};
    return longest;
  }

  [[nodiscard]] PlanRange described(const PricedRule& priced, std::size_t first, std::size_t end,
                                    const std::function<Plan(Plan)>& label) const {
    PlanRange range;
    for (std::size_t i = first; i < end; ++i) {
      const Choice choice = *stand_in(priced, i);
      Plan plan = search_.plan(choice, m_[i]);
      if (label) plan = label(std::move(plan));
      PlanRange one = range_of(plan);
      one.rule = priced.rule;
      one.loss = std::max(0.0, choice.score_us / best_[i].score_us - 1);
      i == first ? void(range = std::move(one)) : range.extend(one);
    }
    return range;
  }
  const RangeSearch& search_;
  std::vector<std::int64_t> m_;
  std::vector<Choice> best_;
  std::vector<PricedRule> rules_;
  std::set<std::tuple<const VariantCost*, Schedule, std::int64_t, std::int64_t, bool>> known_;
};

Result<void> require_finite(const std::vector<PlanRange>& ranges) {
  for (const PlanRange& range : ranges)
    if (!std::isfinite(range.least_benefit) || !std::isfinite(range.most_benefit) || !std::isfinite(range.loss))
      return Error{ErrorCode::OutOfRange, "model",
                   "gives a time that is not a finite number for m of " + m_text(range.first_m, range.last_m)};
  return {};
}

/// The first m that is cut by rows.
std::int64_t first_row_cut_m(const OpSpec& op) { return traits_of(op.kind).max_column_cut_m + 1; }

Result<void> validate_place(const OpSpec& op, std::int64_t first_m, std::int64_t last_m, std::int64_t after_m,
                            const std::string& place) {
  if (first_m > after_m && last_m >= first_m && last_m <= op.m) return {};
  return Error{ErrorCode::InvalidSpec, place,
               "is m of " + m_text(first_m, last_m) + "; they ascend, each behind the one before it, up to " +
                   std::to_string(op.m)};
}

Result<void> validate_range(const OpSpec& op, const PlanRange& range, std::int64_t after_m, const std::string& place) {
  MC2_TRY(validate_place(op, range.first_m, range.last_m, after_m, place));
  const CutRule& rule = range.rule;
  if (rule.long_rows < 0 || rule.long_rows > kMaxSize || rule.min_odd_rows < 0 || rule.min_odd_rows > kMaxSize ||
      rule.is_cut() != (rule.min_odd_rows > 0))
    return Error{ErrorCode::InvalidSpec, place + ".rule",
                 "has blocks of " + std::to_string(rule.long_rows) + " and an odd one of at least " +
                     std::to_string(rule.min_odd_rows) + "; both are 1 to 1e9, or both 0 for an uncut range"};
  if (rule.is_cut() && rule.schedule == Schedule::Serial)
    return Error{ErrorCode::InvalidSpec, place + ".schedule", "is serial, which is of plans that are not cut"};
  return {};
}

} // namespace

Cut BlockSplit::cut() const {
  Cut cut{std::vector<std::int64_t>(static_cast<std::size_t>(long_count), long_rows)};
  if (odd_rows > 0) cut.block_rows.insert(is_odd_first ? cut.block_rows.begin() : cut.block_rows.end(), odd_rows);
  return cut;
}

std::string CutRule::text() const {
  if (!is_cut()) return schedule == Schedule::Serial ? "do not cut" : "uncut, the lanes overlap as it is";
  const std::string odd = std::to_string(min_odd_rows) + " to " + std::to_string(min_odd_rows + long_rows - 1);
  const std::string each = std::to_string(long_rows) + " each";
  return is_odd_first ? odd + ", then " + each : each + ", then " + odd;
}

void PlanRange::extend(const PlanRange& next) noexcept {
  last_m = next.last_m;
  least_benefit = std::min(least_benefit, next.least_benefit);
  most_benefit = std::max(most_benefit, next.most_benefit);
  provenance = std::max(provenance, next.provenance);
  loss = std::max(loss, next.loss);
  if (!next.benefit_interval) benefit_interval.reset();
  if (!benefit_interval) return;
  benefit_interval->low = std::min(benefit_interval->low, next.benefit_interval->low);
  benefit_interval->high = std::max(benefit_interval->high, next.benefit_interval->high);
}

const PlanRange* PlanRanges::find(std::int64_t m) const noexcept {
  const auto range = std::ranges::lower_bound(ranges, m, {}, &PlanRange::last_m);
  return range != ranges.end() && range->first_m <= m && m % m_step(op) == 0 ? &*range : nullptr;
}

double PlanRanges::loss() const noexcept {
  double most = 0;
  for (const PlanRange& range : ranges) most = std::max(most, range.loss);
  return most;
}

Provenance PlanRanges::provenance() const noexcept {
  if (ranges.empty()) return Provenance::Analytic;
  return std::ranges::max_element(ranges, {}, &PlanRange::provenance)->provenance;
}

Result<void> PlanRanges::validate() const {
  MC2_TRY(op.validate());
  if (first_m < 1 || first_m > op.m)
    return m_error("range starts at " + std::to_string(first_m) + " and ends at " + std::to_string(op.m));
  std::int64_t after_m = first_m - 1;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    MC2_TRY(validate_range(op, ranges[i], after_m, "ranges[" + std::to_string(i) + "]"));
    after_m = ranges[i].last_m;
  }
  after_m = first_m - 1;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    MC2_TRY(validate_place(op, gaps[i].first_m, gaps[i].last_m, after_m, "gaps[" + std::to_string(i) + "]"));
    after_m = gaps[i].last_m;
  }
  return {};
}

Result<void> check_range(const OpSpec& op, std::int64_t first_m, std::int64_t last_m, const PlanOptions& options) {
  MC2_TRY(with_m(op, std::max(op.world_size, 1)).validate()); // m itself is not asked for
  const std::int64_t most = kMaxRangeAxis * m_step(op);
  if (first_m < 1 || last_m > most || first_m > last_m)
    return m_error("range is " + std::to_string(first_m) + " to " + std::to_string(last_m) +
                   "; legal: a first and a last m of 1 to " + std::to_string(most) + ", the first not above the last");
  const std::int64_t count = last_m / m_step(op) - (first_m - 1) / m_step(op);
  if (count < 1)
    return m_error("none from " + m_text(first_m, last_m) + " is a multiple of the " + std::to_string(op.world_size) +
                   " ranks, which divide the rows of " + std::string(to_string(op.kind)));
  MC2_TRY(options.validate());
  if (options.strategy != "search")
    return Error{ErrorCode::InvalidSpec, "strategy",
                 "is " + options.strategy + "; ranges of m are planned by strategy search"};
  return {};
}

Result<PlanRanges> plan_ranges(const OpSpec& op, std::int64_t first_m, std::int64_t last_m, const CostModel& model,
                               const PlanOptions& options, const std::function<Plan(Plan)>& label,
                               const StopCheck& is_stopped) {
  MC2_TRY(check_range(op, first_m, last_m, options));
  if (options.has_assumptions()) {
    const Assumed assumed = assume(model, options);
    return plan_ranges(op, first_m, last_m, assumed.model, assumed.options, label, is_stopped);
  }
  const std::int64_t step = m_step(op);
  PlanRanges result{with_m(op, last_m / step * step), model.fingerprint, first_m};
  std::vector<std::int64_t> all;
  for (std::int64_t m = ceil_div(std::max(first_m, first_row_cut_m(op)), step) * step; m <= last_m; m += step)
    all.push_back(m);
  if (first_m < first_row_cut_m(op))
    result.gaps.push_back({first_m, std::min(last_m, first_row_cut_m(op) - 1),
                           "blocks of so few rows are cut from n; each such m has a model of its own"});
  if (all.empty()) return result;
  const OpSpec longest = with_m(op, all.back());
  MC2_TRY(strategies::check_question(longest, model));
  const RangeSearch search(longest, model, options, &is_stopped);
  result.planned_count = std::ssize(all);
  result.ranges = Cover(search, std::move(all)).ranges(label);
  if (search.is_stopped()) return strategies::stopped_error();
  MC2_TRY(require_finite(result.ranges));
  return result;
}

PlanRange range_of(const Plan& plan) {
  PlanRange range{plan.op.m, plan.op.m, {plan.variant, plan.schedule}};
  if (plan.is_cut()) {
    const auto& rows = plan.cut.block_rows;
    range.rule.is_odd_first = plan.cut.order() == BlockOrder::ShortFirst;
    range.rule.min_odd_rows = range.rule.is_odd_first ? rows.front() : rows.back();
    range.rule.long_rows = range.rule.is_odd_first ? rows.back() : rows.front();
  }
  range.least_benefit = range.most_benefit = plan.benefit();
  range.benefit_interval = plan.benefit_interval;
  range.provenance = plan.makespan.provenance;
  return range;
}

Result<Plan> plan_at(const PlanRanges& ranges, std::int64_t m) {
  const OpSpec op = with_m(ranges.op, m);
  MC2_TRY(op.validate());
  const PlanRange* const range = ranges.find(m);
  if (range == nullptr)
    return Error{ErrorCode::NotFound, "m",
                 "is " + std::to_string(m) + ", which no range covers; they go from " + std::to_string(ranges.first_m) +
                     " to " + std::to_string(ranges.op.m)};
  const CutRule& rule = range->rule;
  return unpredicted_plan(op, ranges.fingerprint, rule.variant,
                          rule.split(traits_of(op.kind).cut_axis_length(op)).cut(), rule.schedule);
}

} // namespace mc2::planner
