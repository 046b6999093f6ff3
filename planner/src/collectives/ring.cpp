#include <algorithm>

#include "collectives/algorithms.hpp"

namespace mc2::planner::collectives {

PieceCost ring_piece(const Fabric& fabric, Collective collective, double bytes) noexcept {
  const int n = fabric.rank_count();
  const int passes = pass_count(collective), hops = passes * (n - 1);
  // A shard that starts at the last rank of a node crosses to the next node at once, then after every p hops.
  const int crossings = fabric.node_count > 1 ? (hops + fabric.node_size - 1) / fabric.node_size : 0;
  const double shard_bytes = bytes / n;
  const double messages = fabric.message_count(shard_bytes / fabric.rail_count);
  double step_us = 0;
  if (fabric.node_size > 1)
    step_us = std::max(messages * fabric.intra_message_us, shard_bytes * fabric.intra_us_per_byte);
  if (fabric.node_count > 1)
    step_us = std::max({step_us, messages * fabric.rail_message_us, shard_bytes * fabric.node_us_per_byte});
  return {(hops - crossings) * fabric.intra_alpha_us + crossings * fabric.inter_alpha_us, hops * step_us,
          hops * step_us, fabric.hop_us()};
}

double ring_us(const Fabric& fabric, Collective collective, double bytes) noexcept {
  return ring_piece(fabric, collective, bytes).total_us(1);
}

} // namespace mc2::planner::collectives
