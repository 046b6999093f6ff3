#include "mc2/planner/plan_ranges.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory_resource>
#include <set>
#include <tuple>
#include <utility>

#include "mc2/planner/text.hpp"
#include "strategies/range_search.hpp"

namespace mc2::planner {
namespace {

using strategies::Choice;
using strategies::RangeSearch;

/// Neighbouring m have nearly the same best cut, so rules are taken only from m that differ by this factor.
constexpr double kRuleSpacing = 1.005;
/// Largest table, in bytes, that is kept for the next search; larger ones are given back to the system.
constexpr std::size_t kLargestTable = std::size_t{1} << 20;

OpSpec with_m(OpSpec op, std::int64_t m) {
  op.m = m;
  return op;
}

Error m_error(const std::string& message) { return {ErrorCode::InvalidSpec, "m", message}; }

std::string m_text(std::int64_t first, std::int64_t last) {
  return first == last ? std::to_string(first) : std::to_string(first) + " to " + std::to_string(last);
}

/// A rule, and the index of its variant in each model.
struct PricedRule {
  CutRule rule;
  std::size_t variant = 0;
};

/// Covers ascending m by ranges. Each range is as long as any one rule allows, of the rules that earlier m and all m of
/// the same model gave.
class Cover {
 public:
  /// @param label, on_planned  as of plan_ranges()
  Cover(const PlanOptions& options, const std::function<Plan(Plan)>& label, const StopCheck& is_stopped,
        const std::function<void(std::int64_t)>& on_planned)
      : options_(options), label_(label), is_stopped_(is_stopped), on_planned_(on_planned) {}

  /// Adds the next m, ascending, for which `model` answers. It must have the variants of the earlier models.
  Result<void> add(OpSpec op, CostModel model, const std::vector<std::int64_t>& all_m) {
    op.m = all_m.back();
    MC2_TRY(strategies::check_question(op, model));
    if (!models_.empty() && !has_same_variants(model, models_.front()))
      return Error{ErrorCode::InvalidSpec, "model", "has other variants from some m on; all have the same"};
    const CostModel& kept = models_.emplace_back(std::move(model));
    const RangeSearch search(op, kept, options_, &is_stopped_, tables_memory_);
    const auto best = best_of(search, kept, all_m);
    for (std::size_t i = 0; i < best.size() && !search.is_stopped(); ++i)
      go_on({with_m(op, all_m[i]), &kept}, search, best[i]);
    if (search.is_stopped()) return strategies::stopped_error();
    return {};
  }

  [[nodiscard]] std::vector<PlanRange> finish() {
    close();
    return std::move(ranges_);
  }

 private:
  struct Asked {
    OpSpec op;
    const CostModel* model;
  };
  /// A rule that covers the open range so far.
  struct Standing {
    PricedRule priced;
    double loss = 0; ///< the largest of any m of the range
  };

  [[nodiscard]] static bool has_same_variants(const CostModel& one, const CostModel& other) {
    return std::ranges::equal(one.variants, other.variants, {}, &VariantCost::variant, &VariantCost::variant);
  }
  /// Plans every m, unless stopped, and adds rules from them.
  std::vector<Choice> best_of(const RangeSearch& search, const CostModel& model,
                              const std::vector<std::int64_t>& all_m) {
    std::vector<Choice> best;
    double next = 0;
    for (const std::int64_t m : all_m) {
      if (search.is_stopped()) break;
      best.push_back(search.best(m, best.empty() ? nullptr : &best.back()));
      if (on_planned_) on_planned_(m);
      if (static_cast<double>(m) < next) continue;
      next = static_cast<double>(m) * kRuleSpacing;
      add_rules(search, model, best.back());
    }
    return best;
  }
  void add_rules(const RangeSearch& search, const CostModel& model, const Choice& choice) {
    const auto variant = static_cast<std::size_t>(choice.cost - model.variants.data());
    for (const std::int64_t least : {search.min_block_rows(*choice.cost), choice.odd_length()})
      add_rule({choice.rule(least), variant});
  }
  void add_rule(const PricedRule& priced) {
    const CutRule& rule = priced.rule;
    const auto key = std::tuple(priced.variant, rule.schedule, rule.long_rows, rule.min_odd_rows, rule.is_odd_first);
    if (known_.insert(key).second) rules_.push_back(priced);
  }

  /// How much longer the rule's choice takes than the best one, relative; nothing if it may not replace the best one.
  [[nodiscard]] static std::optional<double> loss_of(const PricedRule& priced, const Asked& asked,
                                                     const RangeSearch& search, const Choice& best) {
    if (priced.rule.is_cut() && !best.is_cut()) return std::nullopt;
    const auto choice = search.apply(priced.rule, asked.model->variants[priced.variant], asked.op.m);
    if (!choice || choice->score_us > best.score_us * (1 + kRangeTolerance)) return std::nullopt;
    return std::max(0.0, choice->score_us / best.score_us - 1);
  }
  /// Adds the next m to the open range if a rule covers both; otherwise begins the next range with this m.
  void go_on(const Asked& asked, const RangeSearch& search, const Choice& best) {
    std::vector<Standing> left;
    for (const Standing& standing : standing_)
      if (const auto loss = loss_of(standing.priced, asked, search, best))
        left.push_back({standing.priced, std::max(standing.loss, *loss)});
    if (left.empty()) {
      close();
      add_rules(search, *asked.model, best); // they cover this m
      for (const PricedRule& priced : rules_)
        if (const auto loss = loss_of(priced, asked, search, best)) left.push_back({priced, *loss});
    }
    standing_ = std::move(left);
    open_.push_back(asked);
  }

  void close() {
    if (open_.empty()) return;
    const auto& [priced, loss] = standing_.front();
    std::optional<PlanRange> range;
    for (const Asked& asked : open_) {
      if (strategies::says_stop(&is_stopped_)) return; // the result is thrown away
      const PlanRange one = range_of(planned(priced, asked));
      range ? range->extend(one) : void(range = one);
    }
    range->rule = priced.rule;
    range->loss = loss;
    ranges_.push_back(*std::move(range));
    open_.clear();
    standing_.clear();
  }
  [[nodiscard]] Plan planned(const PricedRule& priced, const Asked& asked) const {
    const auto problem = strategies::make_problem(asked.op, *asked.model, options_);
    Plan plan = strategies::predict(problem, asked.model->variants[priced.variant],
                                    priced.rule.split(problem.rows).cut(), "search");
    return label_ ? label_(std::move(plan)) : plan;
  }

  const PlanOptions& options_;
  const std::function<Plan(Plan)>& label_;
  const StopCheck& is_stopped_;
  const std::function<void(std::int64_t)>& on_planned_;
  std::pmr::unsynchronized_pool_resource tables_memory_{{0, kLargestTable}}; ///< reused by one search after the other
  std::deque<CostModel> models_;
  std::vector<PricedRule> rules_;
  std::set<std::tuple<std::size_t, Schedule, std::int64_t, std::int64_t, bool>> known_;
  std::vector<Asked> open_;        ///< every m of the open range
  std::vector<Standing> standing_; ///< in the order of rules_; empty if no range is open
  std::vector<PlanRange> ranges_;
};

/// All m from first to last that the operator can have.
std::vector<std::int64_t> legal_m(const OpSpec& op, std::int64_t first_m, std::int64_t last_m) {
  const std::int64_t step = m_step(op);
  std::vector<std::int64_t> all;
  for (std::int64_t m = align_up(first_m, step); m <= last_m; m += step) all.push_back(m);
  return all;
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

Result<void> validate_rule(const OpSpec& op, const PlanRange& range, const std::string& place) {
  const CutRule& rule = range.rule;
  if (rule.long_rows < 0 || rule.long_rows > kMaxSize || rule.min_odd_rows < 0 || rule.min_odd_rows > kMaxSize ||
      rule.is_cut() != (rule.min_odd_rows > 0))
    return Error{ErrorCode::InvalidSpec, place + ".rule",
                 "has blocks of " + std::to_string(rule.long_rows) + " and an odd one of at least " +
                     std::to_string(rule.min_odd_rows) + "; both are 1 to 1e9, or both 0 for an uncut range"};
  if (rule.is_cut() && rule.schedule == Schedule::Serial)
    return Error{ErrorCode::InvalidSpec, place + ".schedule", "is serial, which is of plans that are not cut"};
  const OpSpec shortest = with_m(op, align_up(range.first_m, m_step(op)));
  const std::int64_t axis_length = traits_of(op.kind).cut_axis_length(shortest);
  if (rule.min_odd_rows > axis_length)
    return Error{ErrorCode::InvalidSpec, place + ".rule.min_odd_length",
                 "is " + std::to_string(rule.min_odd_rows) + "; must be at most the " + std::to_string(axis_length) +
                     " " + cut_axis_text(shortest) + " that are cut at m = " + std::to_string(shortest.m)};
  return {};
}

/// Checks what is predicted for a range.
Result<void> validate_predicted(const PlanRange& range, const std::string& place) {
  MC2_TRY(validate_interval(place + ".least_benefit", range.least_benefit, range.most_benefit));
  if (range.most_benefit > 1)
    return Error{ErrorCode::InvalidSpec, place + ".most_benefit",
                 "is " + number_text(range.most_benefit) + "; must be at most 1, which is all of the time"};
  if (range.benefit_interval)
    MC2_TRY(
        validate_interval(place + ".benefit_interval.low", range.benefit_interval->low, range.benefit_interval->high));
  if (std::isfinite(range.loss) && range.loss >= 0) return {};
  return Error{ErrorCode::InvalidSpec, place + ".loss", "is " + number_text(range.loss) + "; must be finite and >= 0"};
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
  std::int64_t after_m = first_m - 1, ranges_count = 0, gaps_count = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const PlanRange& range = ranges[i];
    const std::string place = "ranges[" + std::to_string(i) + "]";
    MC2_TRY(validate_place(op, range.first_m, range.last_m, after_m, place));
    MC2_TRY(validate_rule(op, range, place));
    MC2_TRY(validate_predicted(range, place));
    ranges_count += legal_count(op, range.first_m, range.last_m);
    after_m = range.last_m;
  }
  after_m = first_m - 1;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    MC2_TRY(validate_place(op, gaps[i].first_m, gaps[i].last_m, after_m, "gaps[" + std::to_string(i) + "]"));
    gaps_count += legal_count(op, gaps[i].first_m, gaps[i].last_m);
    after_m = gaps[i].last_m;
  }
  if (const std::int64_t all = legal_count(op, first_m, op.m); ranges_count + gaps_count != all)
    return Error{ErrorCode::InvalidSpec, "ranges",
                 "have " + std::to_string(ranges_count) + " m and gaps " + std::to_string(gaps_count) + " of the " +
                     std::to_string(all) + " from " + m_text(first_m, op.m) +
                     "; each is in a range or in a gap, and in one only"};
  if (planned_count != ranges_count)
    return Error{ErrorCode::InvalidSpec, "planned_count",
                 "is " + std::to_string(planned_count) + "; the ranges have " + std::to_string(ranges_count) + " m"};
  return {};
}

std::int64_t legal_count(const OpSpec& op, std::int64_t first_m, std::int64_t last_m) {
  return last_m / m_step(op) - (first_m - 1) / m_step(op);
}

Result<void> check_range(const OpSpec& op, std::int64_t first_m, std::int64_t last_m, const PlanOptions& options) {
  MC2_TRY(with_m(op, m_step(op)).validate()); // op's own m does not matter
  const std::int64_t most = kMaxRangeAxis * m_step(op);
  if (first_m < 1 || last_m > most || first_m > last_m)
    return m_error("range is " + std::to_string(first_m) + " to " + std::to_string(last_m) +
                   "; legal: a first and a last m of 1 to " + std::to_string(most) + ", the first not above the last");
  if (legal_count(op, first_m, last_m) < 1)
    return m_error("none from " + m_text(first_m, last_m) + " is a multiple of the " + std::to_string(m_step(op)) +
                   (op.experts_per_rank > 1 ? " experts" : " ranks") + ", which divide the rows of " +
                   std::string(to_string(op.kind)));
  MC2_TRY(options.validate());
  if (!options.counts.empty())
    return Error{ErrorCode::InvalidSpec, "counts",
                 "are given, which are of one m; ranges are planned for equal splits"};
  if (options.strategy != "search")
    return Error{ErrorCode::InvalidSpec, "strategy",
                 "is " + options.strategy + "; ranges of m are planned by strategy search"};
  return {};
}

Result<PlanRanges> plan_ranges(const OpSpec& op, std::int64_t first_m, std::int64_t last_m, const ModelFrom& model_from,
                               const PlanOptions& options, const std::function<Plan(Plan)>& label,
                               const StopCheck& is_stopped, const std::function<void(std::int64_t)>& on_planned) {
  MC2_TRY(check_range(op, first_m, last_m, options));
  std::int64_t next_m = std::max(first_m, first_row_cut_m(op));
  PlanRanges result{with_m(op, last_m / m_step(op) * m_step(op)), {}, first_m};
  if (next_m > first_m)
    result.gaps.push_back(
        {first_m, std::min(last_m, next_m - 1),
         "blocks of so few rows are cut from n, which takes a model of the same m; profile each such m"});
  PlanOptions assumed_options = options;
  Cover cover(assumed_options, label, is_stopped, on_planned);
  while (next_m <= last_m) {
    if (strategies::says_stop(&is_stopped)) return strategies::stopped_error();
    auto [until_m, model] = model_from(next_m);
    if (until_m < next_m) return m_error("models end at " + std::to_string(until_m) + ", before the one asked for");
    result.fingerprint = model.fingerprint;
    const auto all_m = legal_m(op, next_m, std::min(until_m, last_m));
    next_m = until_m + 1;
    if (all_m.empty()) continue;
    Assumed assumed = assume(std::move(model), options);
    assumed_options = assumed.options;
    MC2_TRY(cover.add(op, std::move(assumed.model), all_m));
    result.planned_count += std::ssize(all_m);
  }
  result.ranges = cover.finish();
  if (strategies::says_stop(&is_stopped)) return strategies::stopped_error();
  if (const auto verdict = result.validate(); !verdict)
    return Error{ErrorCode::OutOfRange, "model", "gives plans that cannot be kept: " + verdict.error().text()};
  return result;
}

Result<PlanRanges> plan_ranges(const OpSpec& op, std::int64_t first_m, std::int64_t last_m, const CostModel& model,
                               const PlanOptions& options, const std::function<Plan(Plan)>& label,
                               const StopCheck& is_stopped) {
  const auto of_all = [&](std::int64_t) { return ModelUntil{last_m, model}; };
  auto result = plan_ranges(op, first_m, last_m, of_all, options, label, is_stopped);
  if (result) result.value().fingerprint = model.fingerprint;
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
  if (plan.makespan.reason.find(strategies::kSerialExtrapolated) !=
      std::string::npos) // what a range tells of is its gain
    range.provenance = std::max(range.provenance, Provenance::Extrapolated);
  return range;
}

Result<Plan> plan_at(const PlanRanges& ranges, std::int64_t m) {
  const OpSpec op = with_m(ranges.op, m);
  MC2_TRY(op.validate());
  const PlanRange* const range = ranges.find(m);
  if (range == nullptr) {
    const auto gap =
        std::ranges::find_if(ranges.gaps, [&](const PlanGap& each) { return each.first_m <= m && m <= each.last_m; });
    return Error{ErrorCode::NotFound, "m",
                 "is " + std::to_string(m) + ", which no range covers; " +
                     (gap != ranges.gaps.end() ? gap->reason
                                               : "they were asked for from " + std::to_string(ranges.first_m) + " to " +
                                                     std::to_string(ranges.op.m))};
  }
  const CutRule& rule = range->rule;
  MC2_ASSIGN(auto plan, unpredicted_plan(op, ranges.fingerprint, rule.variant, rule.split(cut_axis_length(op)).cut(),
                                         rule.schedule));
  plan.reason = "by the rule for m=" + std::to_string(range->first_m) + " to " + std::to_string(range->last_m) + ", " +
                rule.text() + ": predicted gain " + percent_interval_text(range->least_benefit, range->most_benefit);
  return plan;
}

} // namespace mc2::planner
