#pragma once

#include <optional>
#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/profiler/refine.hpp"

namespace mc2::cli {

/// What is known of a machine that is not here.
struct DeviceCosts {
  planner::CostModel model;
  bool is_analytic = false;       ///< a lane of it comes from published constants
  std::vector<std::string> notes; ///< sources, confidence, what imported samples and cuts changed; for people
  std::string recalibration;      ///< from which cuts; empty where none was measured
  std::optional<profiler::Refinement> refinement; ///< of the operator's own measured cuts, if there are any
};

/// Costs of an operator on a machine that the user names: what is published of the device, overridden by what was
/// imported under its name; imported samples alone where nothing is published. Where cuts were measured there, of the
/// operator or else of the nearest m, the model is recalibrated by them.
/// @param limits  of the cuts that a refinement may ask for
/// Errors: UnknownName for a device that is neither published nor imported; as planner::device_model and
/// profiler::fit_cost_model and profiler::refine.
[[nodiscard]] Result<DeviceCosts> device_costs(const std::string& device, const planner::OpSpec& op,
                                               const planner::PlanOptions& limits, const StoreOptions& store);

} // namespace mc2::cli
