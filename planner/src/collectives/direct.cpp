#include <algorithm>

#include "collectives/algorithms.hpp"

namespace mc2::planner::collectives {

PieceCost direct_piece(const Fabric& fabric, Collective collective, double bytes) noexcept {
  const int n = fabric.rank_count(), p = fabric.node_size;
  const double peer_bytes = bytes / n;
  const double messages = fabric.message_count(peer_bytes);
  const double intra_us = (p - 1) * std::max(messages * fabric.intra_message_us, peer_bytes * fabric.intra_us_per_byte);
  const double inter_us =
      (n - p) * std::max(messages * fabric.rank_message_us, p * peer_bytes * fabric.node_us_per_byte);
  const double intra_alpha_us = p > 1 ? fabric.intra_alpha_us : 0;
  const double inter_alpha_us = n > p ? fabric.inter_alpha_us : 0;
  const int passes = pass_count(collective);
  const bool is_inter = inter_alpha_us + inter_us > intra_alpha_us + intra_us;
  return is_inter ? PieceCost{passes * inter_alpha_us, passes * inter_us, passes * inter_us}
                  : PieceCost{passes * intra_alpha_us, passes * intra_us, passes * intra_us};
}

double direct_us(const Fabric& fabric, Collective collective, double bytes) noexcept {
  return direct_piece(fabric, collective, bytes).total_us(1);
}

} // namespace mc2::planner::collectives
