#include <algorithm>

#include "collectives/algorithms.hpp"

namespace mc2::planner::collectives {
namespace {

/// After the exchange inside a node, each rank holds what all ranks of its node have for the ranks of its rail on every
/// other node: it sends N - 1 messages of B / N instead of n - p messages of B / n.
PieceCost all_to_all_across(const Fabric& fabric, double bytes) noexcept {
  const int nodes = fabric.node_count;
  const double peer_bytes = bytes / nodes;
  const double message_us = fabric.message_count(peer_bytes) * fabric.rank_message_us;
  const double us = (nodes - 1) * std::max(message_us, fabric.node_size * peer_bytes * fabric.node_us_per_byte);
  const double latency_us = nodes > 1 ? fabric.inter_alpha_us : 0;
  return {latency_us, us, us, latency_us};
}

} // namespace

PieceCost chained(const PieceCost& first, const PieceCost& second) noexcept {
  return {first.latency_us + second.latency_us, first.fill_us + second.fill_us,
          std::max(first.period_us, second.period_us), std::max(first.hop_us, second.hop_us)};
}

double hierarchical_us(const Fabric& fabric, Collective collective, double bytes) noexcept {
  const double pieces = std::max(1.0, bytes / fabric.stage_bytes()), piece_bytes = bytes / pieces;
  const Fabric inside = fabric.inside(), across = fabric.across();
  if (collective == Collective::AllToAll)
    return chained(direct_piece(inside, collective, piece_bytes), all_to_all_across(fabric, piece_bytes))
        .total_us(pieces);
  const PieceCost first = ring_piece(inside, collective, piece_bytes);
  const double by_ring_us = chained(first, ring_piece(across, collective, piece_bytes)).total_us(pieces);
  if (collective != Collective::AllReduce) return by_ring_us;
  return std::min(by_ring_us, chained(first, tree_piece(across, piece_bytes)).total_us(pieces));
}

} // namespace mc2::planner::collectives
