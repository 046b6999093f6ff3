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
[[nodiscard]] PieceCost ring_piece(const Fabric& fabric, Collective collective, double bytes) noexcept;

/// All-reduce through a double binary tree over nodes with a chain inside each.
[[nodiscard]] PieceCost tree_piece(const Fabric& fabric, double bytes) noexcept;

/// One message of B / n to each other rank per pass, the links inside and between nodes at once.
[[nodiscard]] PieceCost direct_piece(const Fabric& fabric, Collective collective, double bytes) noexcept;

/// Times in us without the launch.
[[nodiscard]] double ring_us(const Fabric& fabric, Collective collective, double bytes) noexcept;
/// The tree works in pieces of two messages per rail, one for each of its two trees.
[[nodiscard]] double tree_us(const Fabric& fabric, Collective collective, double bytes) noexcept;
[[nodiscard]] double direct_us(const Fabric& fabric, Collective collective, double bytes) noexcept;
/// Inside the nodes, then among the nodes rail by rail, in pieces of a message per rail that overlap the two.
[[nodiscard]] double hierarchical_us(const Fabric& fabric, Collective collective, double bytes) noexcept;
/// All-reduce in the node's switch and through a double binary tree over nodes, in pieces as above.
[[nodiscard]] double switch_tree_us(const Fabric& fabric, Collective collective, double bytes) noexcept;

/// Cost of a piece that passes two stages one after the other, over different links.
[[nodiscard]] PieceCost chained(const PieceCost& first, const PieceCost& second) noexcept;

} // namespace mc2::planner::collectives
