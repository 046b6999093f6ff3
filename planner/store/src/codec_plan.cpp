#include <string>

#include "codec_parts.hpp"

namespace mc2::store {
namespace {

using planner::Estimate;
using planner::RecipeStep;
using planner::RunnerUp;
using planner::Schedule;
using planner::Span;

Json write_estimate(const Estimate& estimate) {
  return {{"high_us", finite(estimate.high_us)},
          {"low_us", finite(estimate.low_us)},
          {"provenance", to_string(estimate.provenance)},
          {"reason", estimate.reason},
          {"us", finite(estimate.us)}};
}

Estimate read_estimate(const Node& node) {
  const Fields fields(node, {"high_us", "low_us", "provenance", "reason", "us"});
  return {fields["us"].number(), fields["low_us"].number(), fields["high_us"].number(),
          fields["provenance"].name(planner::parse_provenance), fields["reason"].text()};
}

Json write_spans(const std::vector<Span>& spans) {
  Json result = Json::array();
  for (const Span& span : spans)
    result.push_back({{"end_us", finite(span.end_us)}, {"start_us", finite(span.start_us)}});
  return result;
}

Span read_span(const Node& node) {
  const Fields fields(node, {"end_us", "start_us"});
  return {fields["start_us"].number(), fields["end_us"].number()};
}

planner::Timeline read_timeline(const Node& node) {
  const Fields fields(node, {"first", "makespan_us", "overlap_us", "second"});
  return {fields["first"].list(read_span), fields["second"].list(read_span), fields["makespan_us"].number(),
          fields["overlap_us"].number()};
}

Json write_runners_up(const std::vector<RunnerUp>& runners_up, planner::CutAxis axis) {
  Json result = Json::array();
  for (const RunnerUp& each : runners_up)
    result.push_back({{"cut", write_cut(each.cut, axis)},
                      {"makespan_us", finite(each.makespan_us)},
                      {"reason", each.reason},
                      {"variant", write_variant(each.variant)}});
  return result;
}

RunnerUp read_runner_up(const Node& node, planner::CutAxis axis) {
  const Fields fields(node, {"cut", "makespan_us", "reason", "variant"});
  return {read_cut(fields["cut"], axis), read_variant(fields["variant"]), fields["makespan_us"].number(),
          fields["reason"].text()};
}

Json write_certificate(const planner::Certificate& certificate) {
  Json result = {{"bounded_count", certificate.bounded_count},
                 {"candidate_count", certificate.candidate_count},
                 {"simulated_count", certificate.simulated_count},
                 {"text", certificate.text}};
  if (certificate.restriction_cost) result["restriction_cost"] = finite(*certificate.restriction_cost);
  return result;
}

planner::Certificate read_certificate(const Node& node) {
  const Fields fields(node, {"bounded_count", "candidate_count", "simulated_count", "text"}, {"restriction_cost"});
  planner::Certificate certificate{fields["candidate_count"].integer(0), fields["simulated_count"].integer(0),
                                   fields["bounded_count"].integer(0), fields["text"].text()};
  if (fields.has("restriction_cost")) certificate.restriction_cost = fields["restriction_cost"].number();
  return certificate;
}

Json write_recipe(const std::vector<RecipeStep>& recipe) {
  Json result = Json::array();
  for (const RecipeStep& step : recipe)
    result.push_back({{"name", step.name}, {"text", step.text}, {"unit", step.unit}, {"value", finite(step.value)}});
  return result;
}

RecipeStep read_recipe_step(const Node& node) {
  const Fields fields(node, {"name", "text", "unit", "value"});
  return {fields["name"].text(), fields["value"].number(), fields["unit"].text(), fields["text"].text()};
}

Json write_spread(const planner::MeasuredSpread& spread) {
  return {{"fused_high_us", finite(spread.fused_high_us)},
          {"fused_low_us", finite(spread.fused_low_us)},
          {"serial_high_us", finite(spread.serial_high_us)},
          {"serial_low_us", finite(spread.serial_low_us)},
          {"speed_range", finite(spread.speed_range)}};
}

planner::MeasuredSpread read_spread(const Node& node) {
  const Fields fields(node, {"fused_high_us", "fused_low_us", "serial_high_us", "serial_low_us", "speed_range"});
  return {fields["fused_low_us"].number(), fields["fused_high_us"].number(), fields["serial_low_us"].number(),
          fields["serial_high_us"].number(), fields["speed_range"].number()};
}

Json write_validation(const planner::Validation& validation) {
  Json result = {{"benefit", finite(validation.benefit)},         {"benefit_high", finite(validation.benefit_high)},
                 {"benefit_low", finite(validation.benefit_low)}, {"fused_us", finite(validation.fused_us)},
                 {"pair_count", validation.pair_count},           {"serial_us", finite(validation.serial_us)}};
  if (!validation.measured_at.empty()) result["measured_at"] = validation.measured_at;
  if (validation.spread) result["spread"] = write_spread(*validation.spread);
  return result;
}

planner::Validation read_validation(const Node& node) {
  const Fields fields(node, {"benefit", "benefit_high", "benefit_low", "fused_us", "pair_count", "serial_us"},
                      {"measured_at", "spread"});
  planner::Validation validation;
  validation.fused_us = fields["fused_us"].number();
  validation.serial_us = fields["serial_us"].number();
  validation.benefit = fields["benefit"].number();
  validation.benefit_low = fields["benefit_low"].number();
  validation.benefit_high = fields["benefit_high"].number();
  validation.pair_count = fields["pair_count"].small_integer(0);
  if (fields.has("measured_at")) validation.measured_at = fields["measured_at"].text();
  if (fields.has("spread")) validation.spread = read_spread(fields["spread"]);
  return validation;
}

Json write_benefit_interval(const planner::BenefitInterval& interval) {
  return {{"high", finite(interval.high)}, {"low", finite(interval.low)}};
}

planner::BenefitInterval read_benefit_interval(const Node& node) {
  const Fields fields(node, {"high", "low"});
  return {fields["low"].number(), fields["high"].number()};
}

Json write_slowdown(const planner::Slowdown& slowdown) {
  return {{"first", finite(slowdown.first)}, {"second", finite(slowdown.second)}};
}

planner::Slowdown read_slowdown(const Node& node) {
  const Fields fields(node, {"first", "second"});
  return {fields["first"].number(), fields["second"].number()};
}

/// Documents name a schedule by one flag or none, as the first ones did.
Schedule read_schedule(const Fields& fields) {
  const auto has = [&](const char* name) { return fields.has(name) && fields[name].boolean(); };
  const bool is_local_first = has("is_local_first");
  if (!has("is_serial")) return is_local_first ? Schedule::LocalFirst : Schedule::Pipelined;
  if (is_local_first) fields["is_serial"].fail(ErrorCode::InvalidSpec, "excludes is_local_first");
  return Schedule::Serial;
}

/// What was decided, and for what.
void read_decision(const Fields& fields, planner::Plan& plan) {
  plan.op = read_op(fields["op"]);
  plan.fingerprint = read_fingerprint(fields["fingerprint"]);
  plan.strategy = fields["strategy"].name();
  plan.variant = read_variant(fields["variant"]);
  plan.cut = read_cut(fields["cut"], plan.op);
  plan.schedule = read_schedule(fields);
  plan.reason = fields["reason"].text();
}

void read_prediction(const Fields& fields, planner::Plan& plan) {
  plan.makespan = read_estimate(fields["makespan"]);
  if (fields.has("benefit_interval")) plan.benefit_interval = read_benefit_interval(fields["benefit_interval"]);
  plan.serial_us = fields["serial_us"].number();
  plan.compute_us = fields["compute_us"].number();
  plan.communication_us = fields["communication_us"].number();
  plan.ideal_us = fields["ideal_us"].number();
  plan.bound = fields["bound"].name(planner::parse_bound);
  plan.slowdown = read_slowdown(fields["slowdown"]);
  plan.timeline = read_timeline(fields["timeline"]);
}

void read_evidence(const Fields& fields, planner::Plan& plan) {
  if (!fields["runners_up"].is_ok()) return; // an operator that could not be read has no axis
  const auto axis = planner::cut_axis(plan.op);
  plan.runners_up = fields["runners_up"].list([axis](const Node& node) { return read_runner_up(node, axis); });
  plan.recipe = fields["recipe"].list(read_recipe_step);
  if (fields.has("certificate")) plan.certificate = read_certificate(fields["certificate"]);
  if (fields.has("validation")) plan.validation = read_validation(fields["validation"]);
}

} // namespace

Json write_timeline(const planner::Timeline& timeline) {
  return {{"first", write_spans(timeline.first)},
          {"makespan_us", finite(timeline.makespan_us)},
          {"overlap_us", finite(timeline.overlap_us)},
          {"second", write_spans(timeline.second)}};
}

Json write_plan(const planner::Plan& plan) {
  Json result = {{"bound", to_string(plan.bound)},
                 {"communication_us", finite(plan.communication_us)},
                 {"compute_us", finite(plan.compute_us)},
                 {"cut", write_cut(plan.cut, planner::cut_axis(plan.op))},
                 {"fingerprint", write_fingerprint(plan.fingerprint)},
                 {"ideal_us", finite(plan.ideal_us)},
                 {"makespan", write_estimate(plan.makespan)},
                 {"op", write_op(plan.op)},
                 {"reason", plan.reason},
                 {"recipe", write_recipe(plan.recipe)},
                 {"runners_up", write_runners_up(plan.runners_up, planner::cut_axis(plan.op))},
                 {"schema", schema_name("plan")},
                 {"serial_us", finite(plan.serial_us)},
                 {"slowdown", write_slowdown(plan.slowdown)},
                 {"strategy", plan.strategy},
                 {"timeline", write_timeline(plan.timeline)},
                 {"variant", write_variant(plan.variant)}};
  if (plan.schedule == Schedule::LocalFirst) result["is_local_first"] = true;
  if (plan.schedule == Schedule::Serial) result["is_serial"] = true;
  if (plan.benefit_interval) result["benefit_interval"] = write_benefit_interval(*plan.benefit_interval);
  if (plan.certificate) result["certificate"] = write_certificate(*plan.certificate);
  if (plan.validation) result["validation"] = write_validation(*plan.validation);
  return result;
}

template <>
planner::Plan read_document<planner::Plan>(const Node& node) {
  check_schema(node, "plan");
  const Fields fields(
      node,
      {"bound", "communication_us", "compute_us", "cut", "fingerprint", "ideal_us", "makespan", "op", "reason",
       "recipe", "runners_up", "schema", "serial_us", "slowdown", "strategy", "timeline", "variant"},
      {"benefit_interval", "certificate", "is_local_first", "is_serial", "validation"});
  planner::Plan plan;
  read_decision(fields, plan);
  read_prediction(fields, plan);
  read_evidence(fields, plan);
  if (node.is_ok()) node.check(plan.validate());
  return plan;
}

} // namespace mc2::store
