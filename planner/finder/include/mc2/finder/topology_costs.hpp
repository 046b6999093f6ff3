#pragma once

#include <optional>

#include "mc2/finder/find_ranges.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/topology.hpp"

#pragma GCC visibility push(default)

namespace mc2::finder {

/// The analytic model of a described cluster (planner::analytic_model()). If `measured` is set, a model that was
/// measured on one such device, the matmul costs come from it. Errors: as planner::analytic_model and
/// planner::measured_matmul.
[[nodiscard]] Result<planner::CostModel> topology_costs(const planner::Topology& topology, const planner::OpSpec& op,
                                                        const std::optional<planner::CostModel>& measured);

/// Finds models by topology_costs(), for questions that differ in sizes. Questions with equal block costs share one
/// model. Threads: not safe to share; each thread makes its own.
[[nodiscard]] FindModel finding_on_topology(planner::Topology topology,
                                            std::optional<planner::CostModel> measured = std::nullopt);

} // namespace mc2::finder

#pragma GCC visibility pop
