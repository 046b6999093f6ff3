#pragma once

#include <string>
#include <vector>

#include "context.hpp"
#include "mc2/planner/cost_model.hpp"

namespace mc2::cli {

/// What is known of a machine that is not here.
struct DeviceCosts {
  planner::CostModel model;
  bool is_analytic = false;       ///< a lane of it comes from published constants
  std::vector<std::string> notes; ///< sources, confidence, what imported samples changed; for people
};

/// Costs of an operator on a machine that the user names: what is published of the device, overridden by what was
/// imported under its name; imported samples alone where nothing is published.
/// Errors: UnknownName for a device that is neither published nor imported; as planner::device_model and
/// profiler::fit_cost_model.
[[nodiscard]] Result<DeviceCosts> device_costs(const std::string& device, const planner::OpSpec& op,
                                               const StoreOptions& store);

} // namespace mc2::cli
