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

/// What is known about a machine that this process does not run on.
struct DeviceCosts {
  planner::CostModel model;       ///< recalibrated by measured cuts, if any; its op is then the operator of the cuts
  std::vector<std::string> notes; ///< sources, confidence, what imported samples and cuts changed; for people
  bool is_measured = false;       ///< whether imported samples or measured cuts went into the model
  std::optional<profiler::Refinement> refinement = std::nullopt; ///< set if cuts of this very operator were measured
};

/// Costs of an operator on the machine that the user named `device`. Starts from the published figures of the device
/// and overrides them with the samples imported under its name. Uses the imported samples alone if nothing is
/// published. If cuts of the operator were measured on the machine, they recalibrate the model; if there are none at
/// the operator's own m, the cuts of the nearest m do.
/// @param limits  planning options; they also limit the cuts that the refinement suggests to measure next
/// @param kept    unset: nothing was imported
/// Errors: UnknownName (device) if the device is neither published nor imported; NotFound (device) if the device is
/// imported but nothing was imported for the operator; Stale (device) if its logs contradict each other; those of
/// planner::device_model, profiler::fit_cost_model and profiler::refine.
[[nodiscard]] Result<DeviceCosts> device_costs(const std::string& device, const planner::OpSpec& op,
                                               const planner::PlanOptions& limits, const std::optional<Kept>& kept);

/// The places to ask for plans of a device: first its kept plans, then its costs. The costs answer with the best
/// measured cut if the question leaves variant and options open, and with the model's plan otherwise.
[[nodiscard]] std::vector<PlanSource> device_places(DeviceCosts costs, const std::optional<Kept>& kept);

/// Finds models by device_costs(), for questions about one device that differ in sizes. Reads the store once.
/// Threads: not safe to share; each thread makes its own.
[[nodiscard]] FindModel finding_on_device(std::string device, planner::PlanOptions limits, std::optional<Kept> kept);

} // namespace mc2::finder

#pragma GCC visibility pop
