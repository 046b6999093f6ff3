#include <algorithm>

#include "collectives/algorithms.hpp"

namespace mc2::planner::collectives {
namespace {

/// After the exchange inside a node each rank holds, for every other node, what all ranks of its own have for the
/// ranks of its rail: N - 1 messages of B / N instead of n - p of B / n.
PhaseCost all_to_all_across(const Fabric& fabric, double bytes) noexcept {
  const int nodes = fabric.node_count;
  const double peer_bytes = bytes / nodes;
  const double message_us = fabric.message_count(peer_bytes) * fabric.rank_message_us;
  return {nodes > 1 ? fabric.inter_alpha_us : 0,
          (nodes - 1) * std::max(message_us, fabric.node_size * peer_bytes * fabric.node_us_per_byte)};
}

PhaseCost reduction_across(const Fabric& fabric, Collective collective, double bytes) noexcept {
  const Fabric nodes = fabric.across();
  const PhaseCost by_ring = ring(nodes, collective, bytes);
  if (collective != Collective::AllReduce) return by_ring;
  const PhaseCost by_tree = tree(nodes, collective, bytes);
  return by_tree.total_us() < by_ring.total_us() ? by_tree : by_ring;
}

} // namespace

PhaseCost overlapped(const PhaseCost& first, const PhaseCost& second, double piece_count) noexcept {
  const double longer_us = std::max(first.occupancy_us, second.occupancy_us);
  const double piece_us = (first.occupancy_us + second.occupancy_us) / piece_count;
  return {first.latency_us + second.latency_us, piece_us + (1 - 1 / piece_count) * longer_us};
}

PhaseCost hierarchical(const Fabric& fabric, Collective collective, double bytes) noexcept {
  const double pieces = std::max(1.0, bytes / fabric.stage_bytes());
  if (collective == Collective::AllToAll)
    return overlapped(direct(fabric.inside(), collective, bytes), all_to_all_across(fabric, bytes), pieces);
  return overlapped(ring(fabric.inside(), collective, bytes), reduction_across(fabric, collective, bytes), pieces);
}

} // namespace mc2::planner::collectives
