#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "capi/values.hpp"
#include "mc2/finder/models.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/store/codec.hpp"

namespace mc2::capi {
namespace {

void write_measured(const std::optional<planner::Validation>& measured, mc2_plan_summary& summary) {
  summary.measured_at = "";
  if (!measured) return;
  summary.measured_fused_us = measured->fused_us;
  summary.measured_serial_us = measured->serial_us;
  summary.measured_benefit = measured->benefit;
  summary.measured_benefit_low = measured->benefit_low;
  summary.measured_benefit_high = measured->benefit_high;
  summary.measured_pair_count = measured->pair_count;
  summary.measured_at = measured->measured_at.c_str();
}

mc2_plan_summary summary_of(const PlanObject& object) {
  const planner::Plan& plan = object.plan();
  mc2_plan_summary summary{};
  summary.cut_axis = static_cast<std::int32_t>(planner::cut_axis(plan.op));
  summary.block_count = std::ssize(plan.cut.block_rows);
  summary.is_local_first = plan.schedule == planner::Schedule::LocalFirst ? 1 : 0;
  summary.bound = static_cast<std::int32_t>(plan.bound);
  summary.makespan_us = plan.makespan.us;
  summary.makespan_low_us = plan.makespan.low_us;
  summary.makespan_high_us = plan.makespan.high_us;
  summary.serial_us = plan.serial_us;
  summary.compute_us = plan.compute_us;
  summary.communication_us = plan.communication_us;
  summary.ideal_us = plan.ideal_us;
  summary.variant = object.variant.c_str();
  summary.strategy = plan.strategy.c_str();
  summary.provenance = planner::to_string(plan.makespan.provenance).data(); // a literal, which ends with a 0 byte
  summary.reason = plan.reason.c_str();
  summary.source = object.found->source.c_str();
  summary.digest = object.found->stored.digest.c_str();
  summary.miss_count = object.found->misses.size();
  write_measured(plan.validation, summary);
  return summary;
}

mc2_block_split split_of(const planner::PlanRange& range, planner::OpSpec op, std::int64_t m) {
  op.m = m;
  const auto split = range.rule.split(planner::traits_of(op.kind).cut_axis_length(op));
  mc2_block_split result{};
  result.cut_axis = static_cast<std::int32_t>(planner::cut_axis(op));
  result.is_odd_first = split.is_odd_first ? 1 : 0;
  result.block_length = split.long_rows;
  result.block_count = split.long_count;
  result.odd_length = split.odd_rows;
  return result;
}

} // namespace
} // namespace mc2::capi

using namespace mc2;
using namespace mc2::capi;

static_assert(MC2_CUT_ROWS == static_cast<int>(planner::CutAxis::Rows) &&
              MC2_CUT_COLUMNS == static_cast<int>(planner::CutAxis::Columns));
static_assert(MC2_BOUND_COMPUTE == static_cast<int>(planner::Bound::Compute) &&
              MC2_BOUND_COMMUNICATION == static_cast<int>(planner::Bound::Communication));

extern "C" {

mc2_status mc2_plan_from_model(const mc2_model* model, const mc2_op_spec* op, const mc2_plan_options* options,
                               mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] {
    const Pinned<ModelObject> from(model);
    const auto spec = read_op(op);
    const auto chosen = read_plan_options(options, from->value.fingerprint);
    return take(finder::plan_given(from->value, {.op = spec, .machine = {}, .options = chosen, .may_transfer = false}));
  });
}

mc2_status mc2_plan_uncut(const mc2_op_spec* op, const mc2_machine* machine, mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] {
    const Pinned<MachineObject> on(machine);
    return take(embed::uncut_plan(read_op(op), on->value));
  });
}

mc2_status mc2_plan_from_json(const char* json, size_t length, mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] { return take(store::decode_plan(read_document(json, length))); });
}

mc2_status mc2_plan_to_json(const mc2_plan* plan, const char** json, size_t* length) {
  return call([&] { hand_out_text(Pinned<PlanObject>(plan)->found->stored.document, json, length); });
}

mc2_status mc2_free_plan(mc2_plan* plan) { return free_handle<PlanObject>(plan); }

mc2_status mc2_plan_summarize(const mc2_plan* plan, mc2_plan_summary* summary) {
  return call([&] { write_struct(summary, summary_of(*Pinned<PlanObject>(plan)), "summary"); });
}

mc2_status mc2_plan_blocks(const mc2_plan* plan, int64_t* lengths, size_t capacity, size_t* count) {
  return call([&] {
    const Pinned<PlanObject> of(plan);
    hand_out_list(of->plan().cut.block_rows, lengths, capacity, count, "lengths");
  });
}

mc2_status mc2_plan_op(const mc2_plan* plan, mc2_op_spec* op) {
  return call([&] { write_struct(op, write_op(Pinned<PlanObject>(plan)->plan().op), "op"); });
}

mc2_status mc2_plan_ranges_from_json(const char* json, size_t length, mc2_plan_ranges** ranges) {
  return call_for<PlanRangesObject>(ranges, "ranges",
                                    [&] { return take(store::decode_plan_ranges(read_document(json, length))); });
}

mc2_status mc2_plan_ranges_to_json(const mc2_plan_ranges* ranges, const char** json, size_t* length) {
  return call([&] { hand_out_text(Pinned<PlanRangesObject>(ranges)->json, json, length); });
}

mc2_status mc2_plan_ranges_split(const mc2_plan_ranges* ranges, int64_t m, mc2_block_split* split) {
  return call([&] {
    const Pinned<PlanRangesObject> of(ranges);
    const planner::PlanRange* const range = of->value.find(m);
    if (range == nullptr) fail(MC2_ERROR_NOT_FOUND, "m", "is " + std::to_string(m) + ", which no range covers");
    write_struct(split, split_of(*range, of->value.op, m), "split");
  });
}

mc2_status mc2_plan_ranges_plan(const mc2_plan_ranges* ranges, int64_t m, mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] {
    const Pinned<PlanRangesObject> of(ranges);
    return take(planner::plan_at(of->value, m));
  });
}

mc2_status mc2_free_plan_ranges(mc2_plan_ranges* ranges) { return free_handle<PlanRangesObject>(ranges); }

mc2_status mc2_plan_miss(const mc2_plan* plan, size_t index, const char** reason) {
  return call([&] {
    const Pinned<PlanObject> of(plan);
    const auto& misses = of->found->misses;
    if (index >= misses.size()) {
      fail(MC2_ERROR_OUT_OF_RANGE, "index",
           "is " + std::to_string(index) + "; " + std::to_string(misses.size()) + " places had no plan");
    }
    given(reason, "reason") = misses[index].c_str();
  });
}

} // extern "C"
