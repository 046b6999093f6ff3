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
  const auto passed = [passes](double alpha_us, double us) {
    return PieceCost{passes * alpha_us, passes * us, passes * us, alpha_us};
  };
  const PieceCost inter = passed(inter_alpha_us, inter_us), intra = passed(intra_alpha_us, intra_us);
  return inter.total_us(1) > intra.total_us(1) ? inter : intra;
}

double direct_us(const Fabric& fabric, Collective collective, double bytes) noexcept {
  return direct_piece(fabric, collective, bytes).total_us(1);
}

} // namespace mc2::planner::collectives
