#include "mc2/profiler/bench.hpp"

#include <algorithm>
#include <cmath>

#include "mc2/planner/units.hpp"
#include "mc2/profiler/race.hpp"

namespace mc2::profiler {

std::string_view to_string(RunPart part) noexcept {
  switch (part) {
    case RunPart::Fused: return "fused";
    case RunPart::Serial: return "serial";
    case RunPart::SerialCompute: return "serial_compute";
    case RunPart::Compute: return "compute";
    case RunPart::Communication: return "communication";
  }
  return "";
}

planner::Sample sample_of(const planner::OpSpec& op, const ProfileCase& one, const planner::Variant& variant,
                          planner::Component component, double block_us) {
  planner::Sample sample;
  sample.component = component;
  sample.context = one.target == CaseTarget::BothLanes ? planner::Context::CoRun : planner::Context::Alone;
  sample.variant = variant.text();
  sample.block_rows = one.block_rows;
  if (component == planner::Component::Collective)
    sample.message_bytes = one.block_rows * planner::traits_of(op.kind).message_bytes_per_unit(op);
  sample.time = std::chrono::nanoseconds(std::max<std::int64_t>(1, std::llround(block_us * planner::kNsPerUs)));
  return sample;
}

void Bench::keep_variants(std::vector<planner::Variant> variants) {
  for (const auto& variant : facts_.variants)
    if (std::ranges::find(variants, variant) == variants.end()) release(variant);
  facts_.variants = std::move(variants);
}

Result<std::vector<planner::Plan>> Bench::rivals(const planner::CostModel& /*model*/) {
  return std::vector<planner::Plan>();
}

void Bench::release(const planner::Variant& /*variant*/) {}

std::vector<planner::Sample> Keeper::earlier_samples() { return {}; }
Result<void> Keeper::append_samples(std::span<const planner::Sample> /*samples*/) { return {}; }
Result<void> Keeper::replace_samples(std::span<const planner::Sample> /*samples*/) { return {}; }
Result<void> Keeper::keep_model(const planner::CostModel& /*model*/) { return {}; }
Result<void> Keeper::keep_race(const Race& /*race*/, std::span<const planner::Plan> /*contenders*/) { return {}; }
Result<void> Keeper::keep_plan(const planner::Plan& /*plan*/) { return {}; }

} // namespace mc2::profiler
