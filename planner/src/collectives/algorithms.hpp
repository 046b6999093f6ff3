#pragma once

#include "collectives/fabric.hpp"
#include "mc2/planner/collective.hpp"

/// Formulas, with n ranks on N nodes of p, message B: docs/cost_model.md, "Collectives at scale".
namespace mc2::planner::collectives {

/// How often the whole message passes the links: reduce-scatter and all-gather once, all-reduce is one of each.
[[nodiscard]] constexpr int pass_count(Collective collective) noexcept {
  return collective == Collective::AllReduce ? 2 : 1;
}

/// n - 1 hops of B / n per pass; every p-th hop of a shard leads to another node.
[[nodiscard]] PhaseCost ring(const Fabric& fabric, Collective collective, double bytes) noexcept;

/// All-reduce through a pipelined double binary tree over nodes with a chain inside each.
[[nodiscard]] PhaseCost tree(const Fabric& fabric, Collective collective, double bytes) noexcept;

/// One message of B / n to each other rank per pass, the links inside and between nodes at once.
[[nodiscard]] PhaseCost direct(const Fabric& fabric, Collective collective, double bytes) noexcept;

/// Inside the nodes, then among the nodes rail by rail; pieces of the message overlap the two.
[[nodiscard]] PhaseCost hierarchical(const Fabric& fabric, Collective collective, double bytes) noexcept;

/// All-reduce in the node's switch and through a double binary tree over nodes.
[[nodiscard]] PhaseCost switch_tree(const Fabric& fabric, Collective collective, double bytes) noexcept;

/// Two parts that use different links, the message passing both in `piece_count` >= 1 pieces.
[[nodiscard]] PhaseCost overlapped(const PhaseCost& first, const PhaseCost& second, double piece_count) noexcept;

} // namespace mc2::planner::collectives
