#include <string>

#include "plan_parts.hpp"

namespace mc2::store {

using planner::Schedule;

template <>
inline constexpr auto kFields<planner::RunnerUp> = std::tuple(field("cut", &planner::RunnerUp::cut),
                                                              field("variant", &planner::RunnerUp::variant),
                                                              field("makespan_us", &planner::RunnerUp::makespan_us),
                                                              field("reason", &planner::RunnerUp::reason));

template <>
inline constexpr auto kFields<planner::Certificate> = std::tuple(
    field("candidate_count", &planner::Certificate::candidate_count, at_least(0)),
    field("simulated_count", &planner::Certificate::simulated_count, at_least(0)),
    field("bounded_count", &planner::Certificate::bounded_count, at_least(0)),
    field("text", &planner::Certificate::text), field("restriction_cost", &planner::Certificate::restriction_cost));

template <>
inline constexpr auto kFields<planner::RecipeStep> = std::tuple(field("name", &planner::RecipeStep::name),
                                                                field("value", &planner::RecipeStep::value),
                                                                field("unit", &planner::RecipeStep::unit),
                                                                field("text", &planner::RecipeStep::text));

template <>
inline constexpr auto kFields<planner::MeasuredSpread> =
    std::tuple(field("fused_low_us", &planner::MeasuredSpread::fused_low_us),
               field("fused_high_us", &planner::MeasuredSpread::fused_high_us),
               field("serial_low_us", &planner::MeasuredSpread::serial_low_us),
               field("serial_high_us", &planner::MeasuredSpread::serial_high_us),
               field("speed_range", &planner::MeasuredSpread::speed_range));

template <>
inline constexpr auto kFields<planner::Validation> = std::tuple(
    field("fused_us", &planner::Validation::fused_us), field("serial_us", &planner::Validation::serial_us),
    field("benefit", &planner::Validation::benefit), field("benefit_low", &planner::Validation::benefit_low),
    field("benefit_high", &planner::Validation::benefit_high),
    field("pair_count", &planner::Validation::pair_count, at_least(0)),
    field_if_set("measured_at", &planner::Validation::measured_at), field("spread", &planner::Validation::spread));

template <>
inline constexpr auto kFields<planner::Slowdown> = std::tuple(field("first", &planner::Slowdown::first),
                                                              field("second", &planner::Slowdown::second));

template <>
inline constexpr auto kFields<planner::Plan> = std::tuple(
    document("plan"), field("op", &planner::Plan::op), field("fingerprint", &planner::Plan::fingerprint, Texts{}),
    field("strategy", &planner::Plan::strategy, Name{}), field("variant", &planner::Plan::variant),
    field("cut", &planner::Plan::cut), field_if_set("counts", &planner::Plan::counts, kCount),
    field("is_local_first", &planner::Plan::schedule, ScheduleFlag{Schedule::LocalFirst}),
    field("is_serial", &planner::Plan::schedule, ScheduleFlag{Schedule::Serial}),
    field("reason", &planner::Plan::reason), field("makespan", &planner::Plan::makespan),
    field("benefit_interval", &planner::Plan::benefit_interval), field("serial_us", &planner::Plan::serial_us),
    field("compute_us", &planner::Plan::compute_us), field("communication_us", &planner::Plan::communication_us),
    field("ideal_us", &planner::Plan::ideal_us), field("bound", &planner::Plan::bound, &planner::parse_bound),
    field("slowdown", &planner::Plan::slowdown), field("block_overhead_us", &planner::Plan::block_overhead_us),
    field("timeline", &planner::Plan::timeline), field("runners_up", &planner::Plan::runners_up),
    field("recipe", &planner::Plan::recipe), field("certificate", &planner::Plan::certificate),
    field("validation", &planner::Plan::validation), checked(&check_plan));

Result<void> check_plan(const planner::Plan& plan) {
  MC2_TRY(check_cut(plan.cut, plan.op));
  return plan.validate();
}

std::string encode(const planner::PlanRanges& ranges) { return dump(write_described(ranges)); }

template <>
planner::PlanRanges read_document(const Node& node) {
  return read_described<planner::PlanRanges>(node);
}

Result<planner::PlanRanges> decode_plan_ranges(std::string_view json) {
  return decode_document<planner::PlanRanges>(json);
}

Json write_plan(const planner::Plan& plan) { return write_described(plan); }

template <>
planner::Plan read_document(const Node& node) {
  return read_described<planner::Plan>(node);
}

} // namespace mc2::store
