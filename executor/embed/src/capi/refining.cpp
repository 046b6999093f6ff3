#include "capi/objects.hpp"
#include "capi/structs.hpp"
#include "capi/values.hpp"
#include "mc2/planner/cutting.hpp"
#include "mc2/store/dates.hpp"
#include "mc2/store/imported.hpp"

namespace mc2::capi {
namespace {

using profiler::LearnedFactor;

std::vector<mc2_measured_cut> read_cuts(const mc2_measured_cut* first, std::size_t count) {
  if (count > profiler::kMaxMeasuredCuts)
    fail(MC2_ERROR_INVALID_SPEC, "count",
         "is " + std::to_string(count) + "; at most " + std::to_string(profiler::kMaxMeasuredCuts) + " cuts at a time");
  return read_structs(first, count, "cuts");
}

/// The cut that the caller ran. Leaves the call unless its blocks fit the operator.
planner::Cut read_cut(const mc2_measured_cut& from, const planner::OpSpec& op) {
  if (from.length_count > static_cast<std::size_t>(planner::kMaxBlockCount))
    fail(MC2_ERROR_INVALID_SPEC, "cuts.length_count",
         "is " + std::to_string(from.length_count) + "; a cut has at most " + std::to_string(planner::kMaxBlockCount) +
             " blocks");
  planner::Cut cut;
  if (from.length_count > 0)
    cut.block_rows.assign(&given(from.lengths, "cuts.lengths"), from.lengths + from.length_count);
  if (const auto fits = planner::validate_cut(op, cut); !fits)
    fail(static_cast<mc2_status>(fits.error().code), "cuts.lengths", fits.error().message);
  return cut;
}

planner::Variant read_variant(const char* name, const planner::CostModel& model) {
  if (name != nullptr) return planner::parse_variant(name);
  if (model.variants.size() != 1)
    fail(MC2_ERROR_INVALID_SPEC, "cuts.variant",
         "is NULL, and the model has " + std::to_string(model.variants.size()) + " variants; name the one that ran");
  return model.variants.front().variant;
}

planner::CutTimes times_of(const mc2_measured_cut& cut) {
  const int run_count = cut.run_count == 0 ? 1 : static_cast<int>(std::min<std::uint32_t>(cut.run_count, INT32_MAX));
  return {cut.fused_us,
          cut.serial_us,
          cut.compute_us,
          cut.communication_us,
          cut.compute_blocks_us,
          cut.communication_blocks_us,
          run_count,
          cut.relative_error};
}

planner::CutRuns to_runs(const mc2_measured_cut& cut, const planner::OpSpec& op) {
  const planner::CutTimes times = times_of(cut);
  if (const auto legal = planner::validate_cut_times(times); !legal)
    fail(MC2_ERROR_INVALID_SPEC, "cuts." + legal.error().field, legal.error().message);
  return {times, read_cut(cut, op).text()};
}

const LearnedFactor& factor_of(const profiler::Refinement& from, LearnedFactor::What what) {
  static const LearnedFactor kNone{};
  const auto found = std::ranges::find(from.factors, what, &LearnedFactor::what);
  return found == from.factors.end() ? kNone : *found;
}

mc2_refinement_summary summary_of(const profiler::Refinement& from) {
  mc2_refinement_summary summary{};
  const auto write = [&](LearnedFactor::What what, std::uint32_t bit, double& value, double& low, double& high) {
    const LearnedFactor& factor = factor_of(from, what);
    if (factor.is_determined) summary.determined_factors |= bit;
    value = factor.after, low = factor.after_low, high = factor.after_high;
  };
  write(LearnedFactor::What::ComputeSlowdown, MC2_FACTOR_COMPUTE_SLOWDOWN, summary.compute_slowdown,
        summary.compute_slowdown_low, summary.compute_slowdown_high);
  write(LearnedFactor::What::CommunicationSlowdown, MC2_FACTOR_COMMUNICATION_SLOWDOWN, summary.communication_slowdown,
        summary.communication_slowdown_low, summary.communication_slowdown_high);
  write(LearnedFactor::What::BlockOverhead, MC2_FACTOR_BLOCK_OVERHEAD, summary.block_overhead_us,
        summary.block_overhead_low_us, summary.block_overhead_high_us);
  for (const profiler::MeasuredAccount& account : from.accounts)
    (account.lane == planner::Lane::Compute ? summary.compute_expansion : summary.communication_expansion) =
        account.expansion();
  summary.serial_us = from.serial_us;
  summary.is_serial_measured = from.is_serial_measured ? 1 : 0;
  summary.relative_noise = from.noise;
  summary.expected_gain = from.expected_gain;
  summary.next_count = from.next.size();
  summary.text = from.text.c_str();
  return summary;
}

/// The plan of a cut, with the time that the refinement predicts for it.
planner::Plan plan_of(const RefinementObject& from, const profiler::CutBelief& belief) {
  auto plan = take(planner::predict_cut(from.op, from.refinement.model, belief.variant, belief.cut));
  plan.makespan.us = belief.us;
  plan.makespan.low_us = belief.low_us;
  plan.makespan.high_us = belief.high_us;
  return plan;
}

} // namespace
} // namespace mc2::capi

using namespace mc2;
using namespace mc2::capi;

extern "C" {

mc2_status mc2_refine(const mc2_model* model, const mc2_op_spec* op, const mc2_measured_cut* cuts, size_t count,
                      const mc2_plan_options* options, mc2_refinement** refinement) {
  return call([&] {
    given(refinement, "refinement");
    const Pinned<ModelObject> from(model);
    const auto spec = read_op(op);
    profiler::RefineSettings settings{read_plan_options(options, from->value.fingerprint)};
    settings.plan.require_significant_gain = false; // the cuts are measured, so small predicted gains may be tried
    std::vector<planner::MeasuredCut> measured;
    for (const mc2_measured_cut& cut : read_cuts(cuts, count))
      measured.push_back({times_of(cut), read_variant(cut.variant, from->value), read_cut(cut, spec)});
    auto made = take(profiler::refine(spec, from->value, measured, settings));
    hand_out(std::make_unique<RefinementObject>(spec, std::move(made)), refinement);
  });
}

mc2_status mc2_refinement_summarize(const mc2_refinement* refinement, mc2_refinement_summary* summary) {
  return call([&] { write_struct(summary, summary_of(Pinned<RefinementObject>(refinement)->refinement), "summary"); });
}

mc2_status mc2_refinement_plan(const mc2_refinement* refinement, mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] { return Pinned<RefinementObject>(refinement)->refinement.plan; });
}

mc2_status mc2_refinement_model(const mc2_refinement* refinement, mc2_model** model) {
  return call_for<ModelObject>(model, "model", [&] { return Pinned<RefinementObject>(refinement)->refinement.model; });
}

mc2_status mc2_refinement_next(const mc2_refinement* refinement, size_t index, mc2_plan** plan) {
  return call_for<PlanObject>(plan, "plan", [&] {
    const Pinned<RefinementObject> of(refinement);
    const auto& next = of->refinement.next;
    if (index >= next.size())
      fail(MC2_ERROR_OUT_OF_RANGE, "index",
           "is " + std::to_string(index) + "; " + std::to_string(next.size()) + " cuts are worth a run");
    return plan_of(*of, next[index]);
  });
}

mc2_status mc2_free_refinement(mc2_refinement* refinement) { return free_handle<RefinementObject>(refinement); }

mc2_status mc2_store_put_measured_cuts(mc2_store* store, const char* device, const mc2_op_spec* op,
                                       const mc2_measured_cut* cuts, size_t count, size_t* kept_count) {
  return call([&] {
    const auto machine = store::imported_fields(&given(device, "device"));
    const auto spec = read_op(op);
    std::vector<planner::CutRuns> runs;
    for (const mc2_measured_cut& cut : read_cuts(cuts, count)) runs.push_back(to_runs(cut, spec));
    OpenStore opened(store);
    const auto kept = take(store::keep_imported(*opened, {}, {spec, {machine}, {}}, runs, store::utc_now()));
    if (kept_count != nullptr) *kept_count = kept.measurements.size();
  });
}

} // extern "C"
