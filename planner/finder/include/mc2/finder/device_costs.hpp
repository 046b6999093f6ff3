#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mc2/finder/find_ranges.hpp"
#include "mc2/finder/plan_source.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/planner.hpp"
#include "mc2/profiler/refine.hpp"

#pragma GCC visibility push(default)

namespace mc2::finder {

/// What is known of a machine that is not here.
struct DeviceCosts {
  planner::CostModel model;       ///< where cuts were measured, of the m of theirs that is nearest
  std::vector<std::string> notes; ///< sources, confidence, what imported samples and cuts changed; for people
  bool is_measured = false;       ///< whether imported samples or cuts are in it
  std::optional<profiler::Refinement> refinement = std::nullopt; ///< of the operator's own measured cuts, if any
};

/// Costs of an operator on a machine that its user named: what is published of the device, overridden by what was
/// imported under its name; imported samples alone where nothing is published. Where cuts were measured there, of the
/// operator or else of the nearest m, the model is recalibrated by them.
/// @param kept    null: nothing was imported
/// @param limits  of the cuts that a refinement may ask for
/// Errors: UnknownName (device) for a device that is neither published nor imported; NotFound (device) where nothing
/// was imported for the operator; Stale (device) where its logs contradict each other; as planner::device_model,
/// profiler::fit_cost_model and profiler::refine.
[[nodiscard]] Result<DeviceCosts> device_costs(const std::string& device, const planner::OpSpec& op,
                                               const planner::PlanOptions& limits, const std::optional<Kept>& kept);

/// Where plans of a device come from: what is kept of it, then its costs: of the cuts that were measured there the
/// best, where the question leaves variant and options open, else what the model gives.
[[nodiscard]] std::vector<PlanSource> device_places(DeviceCosts costs, const std::optional<Kept>& kept);

/// device_costs() for questions of one device that differ in sizes; what is kept is read once. Threads: one at a time;
/// each makes its own.
[[nodiscard]] FindModel finding_on_device(std::string device, planner::PlanOptions limits, std::optional<Kept> kept);

} // namespace mc2::finder

#pragma GCC visibility pop
