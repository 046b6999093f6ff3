#include "mc2/planner/planner.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <map>

#include "mc2/planner/block_lengths.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/planner/text.hpp"
#include "strategies/family.hpp"
#include "strategies/formula.hpp"
#include "strategies/free_list.hpp"
#include "strategies/length_sweep.hpp"
#include "strategies/prediction.hpp"
#include "strategies/search.hpp"
#include "strategies/wave_groups.hpp"

namespace mc2::planner {
namespace {

constexpr std::array kRuleNames{Name<ShortBlockRule>{ShortBlockRule::Largest, "largest"},
                                Name<ShortBlockRule>{ShortBlockRule::Smallest, "smallest"}};

struct Strategy {
  std::string_view name;
  Result<Plan> (*plan)(const strategies::Problem&);
};

/// In order of preference. The last two are published recipes to compare with.
constexpr std::array kStrategies{
    Strategy{"search",
             [](const strategies::Problem& problem) { return Result<Plan>(strategies::plan_by_search(problem)); }},
    Strategy{"free",
             [](const strategies::Problem& problem) { return Result<Plan>(strategies::plan_by_free_list(problem)); }},
    Strategy{"formula", strategies::plan_by_formula}, Strategy{"wave_groups", strategies::plan_by_wave_groups}};

constexpr auto kStrategyNames = [] {
  std::array<std::string_view, kStrategies.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kStrategies[i].name;
  return names;
}();

Result<void> validate_contention(const char* field, double factor) {
  if (factor >= kMinContention && factor <= kMaxContention) return {};
  return Error{ErrorCode::InvalidSpec, field, "is " + number_text(factor) + "; legal: 1 to 10"};
}

Error range_error(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
  return {ErrorCode::InvalidSpec, field,
          "is " + std::to_string(value) + "; legal: " + std::to_string(low) + " to " + std::to_string(high)};
}

/// A plan is served and kept as a document, and readers refuse one that is not valid.
Result<Plan> require_readable(Plan plan) {
  const auto verdict = plan.validate();
  if (verdict) return plan;
  return Error{ErrorCode::OutOfRange, "model",
               "gives a plan that cannot be kept for " + plan.op.text() + ": " + verdict.error().text()};
}

Error unknown_variant(const Variant& variant) {
  return {ErrorCode::UnknownName, "variant", "the model has no variant '" + variant.name.substr(0, 64) + "'"};
}

Result<void> check_counts(const OpSpec& op, const RowCounts& counts) {
  return counts.empty() ? Result<void>() : validate_counts(op, counts);
}

/// The model without variants that cannot exchange unequal splits. Errors: Infeasible if none is left.
Result<CostModel> with_counted_variants(const OpSpec& op, CostModel model) {
  std::erase_if(model.variants,
                [&](const VariantCost& cost) { return !takes_counts(model.fingerprint, op, cost.variant); });
  if (model.serial && model.cost_of(model.serial->variant) == nullptr) model.serial.reset();
  if (!model.variants.empty()) return model;
  return Error{ErrorCode::Infeasible, "counts", "are given, and no variant of the model exchanges unequal splits"};
}

Result<void> validate_given(const OpSpec& op, const CostModel& model, const Cut& cut, const RowCounts& counts = {}) {
  MC2_TRY(strategies::check_question(op, model));
  MC2_TRY(check_counts(op, counts));
  return validate_cut(op, cut);
}

/// The arguments must have passed validate_given().
Result<Plan> predict_given(const OpSpec& op, const CostModel& model, const VariantCost& cost, const Cut& cut,
                           const RowCounts& counts = {}) {
  PlanOptions options;
  options.counts = counts;
  Plan plan = strategies::predict(strategies::make_problem(op, model, options), cost, cut, "given");
  plan.reason = "blocks given by the caller";
  return require_readable(std::move(plan));
}

/// Plans for several tables of counts. All variants of the model must take counts.
Result<Plan> plan_over_tables(const OpSpec& op, const CostModel& model, const PlanOptions& options,
                              const StopCheck& is_stopped) {
  const auto size = std::ssize(options.counts) / static_cast<std::ptrdiff_t>(table_count(op, options.counts));
  std::deque<PlanOptions> of_tables; // the problems refer to them
  std::vector<strategies::Problem> problems;
  for (auto table = options.counts.begin(); table != options.counts.end(); table += size) {
    PlanOptions& own = of_tables.emplace_back(options);
    own.counts.assign(table, table + size);
    own.objective_quantile = kMinObjectiveQuantile; // the quantile is taken over the tables
    problems.push_back(strategies::make_problem(op, model, own, &is_stopped));
  }
  Plan plan = strategies::plan_over_tables(problems, options.objective_quantile);
  if (problems.front().is_stopped()) return strategies::stopped_error();
  return require_readable(std::move(plan));
}

} // namespace

std::string_view to_string(ShortBlockRule rule) noexcept { return name_of<ShortBlockRule>(kRuleNames, rule); }
Result<ShortBlockRule> parse_short_block_rule(std::string_view text) {
  return parse_name<ShortBlockRule>(kRuleNames, text, "short block rule");
}

std::span<const std::string_view> strategy_names() noexcept { return kStrategyNames; }

Result<LaneContention> parse_contention(std::string_view text) {
  const bool has_two = text.find(',') != std::string_view::npos;
  const std::string_view first = take_part(text, ',');
  const std::string_view parts[]{first, has_two ? trimmed(text) : first};
  double factors[2]{};
  for (const int lane : {0, 1}) {
    const std::string_view part = parts[lane];
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), factors[lane]);
    const std::string shown = std::string(part.substr(0, 32)),
                      legal = "; legal: 1 to 10, or two such factors as 1.1,1.3";
    if (end == part.data() || end != part.data() + part.size() || failure == std::errc::invalid_argument)
      return Error{ErrorCode::InvalidSpec, "contention", "'" + shown + "' is no factor" + legal};
    if (failure != std::errc() || !(factors[lane] >= kMinContention && factors[lane] <= kMaxContention))
      return Error{ErrorCode::InvalidSpec, "contention", "is " + shown + legal};
  }
  return LaneContention{factors[0], factors[1]};
}

Result<void> PlanOptions::validate() const {
  MC2_TRY(find_named(kStrategies, strategy, &Strategy::name, "strategy", "name"));
  if (alignment < 1 || alignment > kMaxSize) return range_error("alignment", alignment, 1, kMaxSize);
  if (min_block_rows < 1 || min_block_rows > kMaxSize)
    return range_error("min_block_rows", min_block_rows, 1, kMaxSize);
  if (max_block_count < 1 || max_block_count > kMaxBlockCount)
    return range_error("max_block_count", max_block_count, 1, kMaxBlockCount);
  if (runner_up_count < 0 || runner_up_count > kMaxRunnerUpCount)
    return range_error("runner_up_count", runner_up_count, 0, kMaxRunnerUpCount);
  MC2_TRY(validate_contention("formula_contention", formula_contention));
  if (contention) {
    MC2_TRY(validate_contention("contention", contention->compute));
    MC2_TRY(validate_contention("contention", contention->communication));
  }
  if (block_overhead_us) MC2_TRY(validate_time("block_overhead_us", *block_overhead_us));
  if (!counts.empty() && strategy != "search")
    return Error{ErrorCode::InvalidSpec, "strategy", "is " + strategy + "; only search plans for counts of rows"};
  if (!(objective_quantile >= kMinObjectiveQuantile && objective_quantile <= kMaxObjectiveQuantile))
    return Error{ErrorCode::InvalidSpec, "objective_quantile",
                 "is " + number_text(objective_quantile) + "; legal: 0.5 to 0.999"};
  if (strategy != "search" && objective_quantile != kMinObjectiveQuantile)
    return Error{ErrorCode::InvalidSpec, "objective_quantile",
                 "is " + number_text(objective_quantile) + ", which strategy " + strategy +
                     " does not know; leave it at 0.5, or use strategy search"};
  return {};
}

std::string assumptions_text(const PlanOptions& options, const Plan& plan) {
  std::string text;
  if (const auto& asked = options.contention) {
    const bool computes_first = traits_of(plan.op.kind).first_lane == Lane::Compute;
    const auto& [first, second] = plan.slowdown;
    const auto of_lane = [](double wanted, double used, const char* lane) {
      if (used > 1 || wanted == used) return number_text(wanted) + " (" + lane + ")";
      return "none (" + std::string(lane) + ", a part of which the other lane does)"; // measured below 1
    };
    text = "slow-downs of " + of_lane(asked->compute, computes_first ? first : second, "compute") + " and " +
           of_lane(asked->communication, computes_first ? second : first, "communication");
  }
  if (options.block_overhead_us)
    text += (text.empty() ? "" : " and ") + number_text(*options.block_overhead_us) + " us per block";
  return text.empty() ? "" : "assumed as asked: " + text;
}

namespace {

/// Sets a lane's slow-down, which races then leave open no more. A factor below 1 is no contention: it says that the
/// other lane does a part of this lane's work.
void assume_contention(VariantCost& cost, LaneCost VariantCost::*lane, double CostStep::*open, double contention) {
  if ((cost.*lane).slowdown < 1) return;
  (cost.*lane).slowdown = contention;
  (cost.*lane).slowdown_interval = 0;
  for (CostStep& step : cost.open_steps) step.*open = 0;
}

} // namespace

Assumed assume(CostModel model, PlanOptions options) {
  for (VariantCost& cost : model.variants) {
    if (options.contention) {
      assume_contention(cost, &VariantCost::compute, &CostStep::compute_slowdown, options.contention->compute);
      assume_contention(cost, &VariantCost::communication, &CostStep::communication_slowdown,
                        options.contention->communication);
    }
    if (options.block_overhead_us) {
      cost.compute.fixed_us = cost.communication.fixed_us = *options.block_overhead_us;
      for (CostStep& step : cost.open_steps) step.fixed_us = 0;
    }
  }
  if (options.contention)
    options.formula_contention = std::max(options.contention->compute, options.contention->communication);
  options.contention.reset();
  options.block_overhead_us.reset();
  return {std::move(model), std::move(options)};
}

Result<Plan> make_plan(const OpSpec& op, const CostModel& model, const PlanOptions& options,
                       const StopCheck& is_stopped) {
  MC2_TRY(options.validate());
  if (options.has_assumptions()) {
    const Assumed assumed = assume(model, options);
    MC2_ASSIGN(auto plan, make_plan(op, assumed.model, assumed.options, is_stopped));
    plan.block_overhead_us = options.block_overhead_us;
    plan.reason += "; " + assumptions_text(options, plan);
    return plan;
  }
  MC2_TRY(strategies::check_question(op, model));
  if (!options.counts.empty()) MC2_TRY(validate_count_tables(op, options.counts));
  CostModel counted;
  if (!options.counts.empty()) {
    MC2_ASSIGN(counted, with_counted_variants(op, model));
  }
  if (table_count(op, options.counts) > 1) return plan_over_tables(op, counted, options, is_stopped);
  const strategies::Problem problem =
      strategies::make_problem(op, options.counts.empty() ? model : counted, options, &is_stopped);
  const auto strategy = std::find_if(kStrategies.begin(), kStrategies.end(),
                                     [&](const Strategy& each) { return each.name == options.strategy; });
  auto plan = strategy->plan(problem);
  if (problem.is_stopped()) return strategies::stopped_error();
  if (!plan) return plan;
  if (!options.counts.empty())
    plan.value().reason += "; times are of the slowest rank, where the busiest multiplies " +
                           number_text(imbalance_of(op, options.counts), 3) + " times the mean";
  return require_readable(std::move(plan).value());
}

Result<Plan> predict_cut(const OpSpec& op, const CostModel& model, const Variant& variant, const Cut& cut,
                         const RowCounts& counts) {
  MC2_TRY(validate_given(op, model, cut, counts));
  if (!counts.empty()) {
    if (!takes_counts(model.fingerprint, op, variant))
      return Error{ErrorCode::Infeasible, "counts",
                   "are given, and variant '" + variant.name + "' exchanges equal splits only"};
    MC2_ASSIGN(const auto counted, with_counted_variants(op, model));
    if (counted.variants.size() < model.variants.size()) return predict_cut(op, counted, variant, cut, counts);
  }
  for (const auto& cost : model.variants)
    if (cost.variant == variant) return predict_given(op, model, cost, cut, counts);
  return unknown_variant(variant);
}

Result<Plan> predict_cut(const OpSpec& op, const CostModel& model, const Cut& cut, const RowCounts& counts) {
  MC2_TRY(validate_given(op, model, cut, counts));
  if (!counts.empty()) {
    MC2_ASSIGN(const auto counted, with_counted_variants(op, model));
    if (counted.variants.size() < model.variants.size()) return predict_cut(op, counted, cut, counts);
  }
  PlanOptions options;
  options.counts = counts;
  const strategies::Problem problem = strategies::make_problem(op, model, options);
  const auto makespan_us = [&](const VariantCost& cost) {
    return strategies::simulate_cut(problem, cost, cut).makespan_us;
  };
  return predict_given(op, model, *std::ranges::min_element(model.variants, {}, makespan_us), cut, counts);
}

Result<Plan> unpredicted_plan(const OpSpec& op, const Fingerprint& machine, const Variant& variant, const Cut& cut,
                              std::optional<Schedule> schedule) {
  MC2_TRY(op.validate());
  MC2_TRY(validate_cut(op, cut));
  Plan plan;
  plan.op = op;
  plan.fingerprint = machine;
  plan.strategy = "given";
  plan.variant = variant;
  plan.cut = cut;
  plan.schedule = schedule.value_or(overlapping_schedule(op, variant, cut));
  MC2_TRY(plan.validate());
  plan.makespan.reason = "nothing is predicted";
  plan.reason = "blocks given by the caller; no model of this operator is kept to predict them by";
  return plan;
}

Result<Plan> serial_plan(const OpSpec& op, const CostModel& model, const Variant& variant, const RowCounts& counts) {
  CostModel one_lane_at_a_time = model;
  one_lane_at_a_time.spread.overlap = 0;
  MC2_ASSIGN(auto plan, predict_cut(op, one_lane_at_a_time, variant, uncut(op), counts));
  Plan& serial = plan;
  serial.schedule = Schedule::Serial;
  serial.benefit_interval = BenefitInterval{};
  const bool computes_first = traits_of(op.kind).first_lane == Lane::Compute;
  const double first_us = computes_first ? serial.compute_us : serial.communication_us;
  serial.timeline = {.first = {{0, first_us}},
                     .second = {{first_us, serial.serial_us}},
                     .makespan_us = serial.serial_us,
                     .overlap_us = 0};
  const double factor = serial.makespan.us > 0 ? serial.serial_us / serial.makespan.us : 1;
  serial.makespan.us = serial.serial_us;
  serial.makespan.low_us *= factor;
  serial.makespan.high_us *= factor;
  return require_readable(std::move(plan));
}

Result<std::vector<double>> predict_makespans(const OpSpec& op, const CostModel& model, const Variant& variant,
                                              std::span<const Cut> cuts) {
  MC2_TRY(strategies::check_question(op, model));
  const VariantCost* cost = model.cost_of(variant);
  if (cost == nullptr) return unknown_variant(variant);
  const PlanOptions options;
  const strategies::Problem problem = strategies::make_problem(op, model, options);
  std::vector<double> result;
  for (const Cut& cut : cuts) {
    MC2_TRY(validate_cut(op, cut));
    result.push_back(strategies::simulate_cut(problem, *cost, cut).makespan_us);
  }
  return result;
}

Result<LaneTimes> predict_lane_times(const OpSpec& op, const CostModel& model, const Variant& variant, const Cut& cut) {
  MC2_TRY(validate_given(op, model, cut));
  const VariantCost* cost = model.cost_of(variant);
  if (cost == nullptr) return unknown_variant(variant);
  const PlanOptions options;
  return strategies::lane_times(strategies::make_problem(op, model, options), *cost, cut);
}

Result<std::vector<LengthSensitivity>> length_sensitivities(const OpSpec& op, const CostModel& model,
                                                            const Variant& variant, const Cut& cut) {
  MC2_TRY(validate_given(op, model, cut));
  const VariantCost* cost = model.cost_of(variant);
  if (cost == nullptr) return unknown_variant(variant);
  const PlanOptions options;
  return strategies::length_sensitivities(strategies::make_problem(op, model, options), *cost, cut);
}

std::int64_t long_rows_of(const Cut& cut) {
  std::map<std::int64_t, std::size_t> counts;
  for (const std::int64_t rows : cut.block_rows) ++counts[rows];
  const auto is_rarer = [](const auto& a, const auto& b) {
    return std::pair(a.second, a.first) < std::pair(b.second, b.first);
  };
  return counts.empty() ? 0 : std::ranges::max_element(counts, is_rarer)->first;
}

namespace {

/// Puts the best plan in place of the choice for its length, which has the same cut, a slower one or a less certain
/// one. If its length was not compared, inserts the plan between two lengths.
LengthComparison with_best(std::vector<LengthChoice> choices, Plan best) {
  const std::int64_t long_rows = long_rows_of(best.cut);
  auto place = std::ranges::lower_bound(choices, long_rows, {}, &LengthChoice::long_rows);
  if (place == choices.end() || place->long_rows != long_rows) place = choices.insert(place, LengthChoice{});
  *place = {long_rows, std::move(best)};
  const auto best_index = static_cast<std::size_t>(place - choices.begin());
  return {std::move(choices), best_index};
}

} // namespace

Result<LengthComparison> compare_lengths(const OpSpec& op, const CostModel& model, const PlanOptions& options,
                                         const StopCheck& is_stopped) {
  if (!options.counts.empty())
    return Error{ErrorCode::InvalidSpec, "counts", "are given; lengths are compared for equal splits"};
  MC2_ASSIGN(auto best, make_plan(op, model, options, is_stopped));
  const Assumed assumed = assume(model, options);
  const strategies::Problem problem = strategies::make_problem(op, assumed.model, assumed.options, &is_stopped);
  std::vector<LengthChoice> choices = strategies::sweep_lengths(problem);
  if (problem.is_stopped()) return strategies::stopped_error();
  for (const LengthChoice& choice : choices) MC2_TRY(require_readable(choice.plan));
  return with_best(std::move(choices), std::move(best));
}

Result<std::vector<Cut>> enumerate_cuts(const OpSpec& op, const PlanOptions& options) {
  MC2_TRY(op.validate());
  MC2_TRY(options.validate());
  const std::int64_t rows = cut_axis_length(op);
  std::vector<Cut> cuts{Cut{{rows}}};
  strategies::for_each_member(rows, options, [&](const BlockSplit& member) { cuts.push_back(member.cut()); });
  return cuts;
}

} // namespace mc2::planner
