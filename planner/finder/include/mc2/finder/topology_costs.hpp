#pragma once

#include <optional>

#include "mc2/finder/find_ranges.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/topology.hpp"

#pragma GCC visibility push(default)

namespace mc2::finder {

/// planner::analytic_model() of a described cluster, whose matmul is that of a model which was measured on one such
/// device, where there is one. Errors: as planner::analytic_model and planner::measured_matmul.
[[nodiscard]] Result<planner::CostModel> topology_costs(const planner::Topology& topology, const planner::OpSpec& op,
                                                        const std::optional<planner::CostModel>& measured);

/// topology_costs() for questions that differ in sizes; an operator that another model answers for is not looked up
/// again. Threads: one at a time; each makes its own.
[[nodiscard]] FindModel finding_on_topology(planner::Topology topology,
                                            std::optional<planner::CostModel> measured = std::nullopt);

} // namespace mc2::finder

#pragma GCC visibility pop
