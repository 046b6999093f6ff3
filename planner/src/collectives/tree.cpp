#include <algorithm>
#include <bit>

#include "collectives/algorithms.hpp"

namespace mc2::planner::collectives {

PieceCost tree_piece(const Fabric& fabric, double bytes) noexcept {
  const int p = fabric.node_size;
  const auto depth = static_cast<int>(std::bit_width(static_cast<unsigned>(fabric.node_count - 1)));
  // The chains of different rails start at different ranks, so all links of a node work at once.
  const double intra_hop_us = std::max(fabric.intra_message_us, bytes / p * fabric.intra_us_per_byte);
  // Each tree carries half of the message. Beyond two nodes an inner node receives from two children through the same
  // rails.
  const double share = fabric.node_count == 2 ? 0.5 : 1;
  const double inter_hop_us = std::max(fabric.rail_message_us, share * bytes * fabric.node_us_per_byte);
  const double intra_us = 2 * (p - 1) * intra_hop_us;
  return {2 * (p - 1) * fabric.intra_alpha_us + 2 * depth * fabric.inter_alpha_us, intra_us + 2 * depth * inter_hop_us,
          std::max(intra_us, depth > 0 ? 2 * inter_hop_us : 0.0), fabric.hop_us()};
}

double tree_us(const Fabric& fabric, Collective, double bytes) noexcept {
  const double pieces = std::max(1.0, bytes / (2 * fabric.stage_bytes()));
  return tree_piece(fabric, bytes / pieces).total_us(pieces);
}

} // namespace mc2::planner::collectives
