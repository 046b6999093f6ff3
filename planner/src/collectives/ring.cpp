#include <algorithm>

#include "collectives/algorithms.hpp"

namespace mc2::planner::collectives {

PhaseCost ring(const Fabric& fabric, Collective collective, double bytes) noexcept {
  const int n = fabric.rank_count();
  const int inter_steps = fabric.node_count - 1, intra_steps = n - 1 - inter_steps;
  const double shard_bytes = bytes / n;
  const double messages = fabric.message_count(shard_bytes / fabric.rail_count);
  double step_us = 0;
  if (fabric.node_size > 1)
    step_us = std::max(messages * fabric.intra_message_us, shard_bytes * fabric.intra_us_per_byte);
  if (fabric.node_count > 1)
    step_us = std::max({step_us, messages * fabric.rail_message_us, shard_bytes * fabric.node_us_per_byte});
  const int passes = pass_count(collective);
  return {passes * (intra_steps * fabric.intra_alpha_us + inter_steps * fabric.inter_alpha_us),
          passes * (n - 1) * step_us};
}

} // namespace mc2::planner::collectives
