#include "mc2/finder/topology_costs.hpp"

#include <utility>

#include "mc2/planner/analytic_model.hpp"

namespace mc2::finder {

Result<planner::CostModel> topology_costs(const planner::Topology& topology, const planner::OpSpec& op,
                                          const std::optional<planner::CostModel>& measured) {
  if (!measured) return planner::analytic_model(topology, op);
  MC2_ASSIGN(const auto matmul, planner::measured_matmul(*measured, op));
  return planner::analytic_model(topology, op, matmul);
}

FindModel finding_on_topology(planner::Topology topology, std::optional<planner::CostModel> measured) {
  const bool is_measured = measured.has_value();
  auto find = finding_each([topology = std::move(topology), measured = std::move(measured)](const planner::OpSpec& op) {
    return topology_costs(topology, op, measured);
  });
  return [is_measured, find = std::move(find)](const PlanQuestion& question) -> Result<FoundModel> {
    if (!is_measured) MC2_TRY(planner::check_topology_tells(question.op)); // each m: a reused model does not check it
    return find(question);
  };
}

} // namespace mc2::finder
