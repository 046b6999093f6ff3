#include <algorithm>

#include "collectives/algorithms.hpp"

namespace mc2::planner::collectives {

PhaseCost switch_tree(const Fabric& fabric, Collective collective, double bytes) noexcept {
  const int p = fabric.node_size;
  // The switch reads all of B from every rank and multicasts what one rank of p sends: B (1 + 1 / p) each way.
  const double inside_bytes = p > 1 ? bytes * (1 + 1.0 / p) : 0;
  const PhaseCost inside{p > 1 ? fabric.intra_alpha_us : 0, inside_bytes * fabric.intra_us_per_byte};
  const double pieces = std::max(1.0, bytes / fabric.stage_bytes());
  return overlapped(inside, tree(fabric.across(), collective, bytes), pieces);
}

} // namespace mc2::planner::collectives
