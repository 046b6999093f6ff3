#include <algorithm>

#include "collectives/algorithms.hpp"

namespace mc2::planner::collectives {

double switch_tree_us(const Fabric& fabric, Collective, double bytes) noexcept {
  const int p = fabric.node_size;
  const double pieces = std::max(1.0, bytes / fabric.stage_bytes()), piece_bytes = bytes / pieces;
  // The switch reads all of B from every rank and multicasts what one rank of p sends: B (1 + 1 / p) each way.
  const double inside_us = p > 1 ? piece_bytes * (1 + 1.0 / p) * fabric.intra_us_per_byte : 0;
  const double latency_us = p > 1 ? fabric.intra_alpha_us : 0;
  const PieceCost inside{latency_us, inside_us, inside_us, latency_us};
  return chained(inside, tree_piece(fabric.across(), piece_bytes)).total_us(pieces);
}

} // namespace mc2::planner::collectives
