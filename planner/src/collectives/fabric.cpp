#include "collectives/fabric.hpp"

#include <algorithm>
#include <cmath>

namespace mc2::planner::collectives {
namespace {

constexpr double us_per_byte(double gb_per_s) { return 1e-3 / gb_per_s; }

/// The least of (k - 1) hop_us + transfer_us / k over real k >= 1.
double parts_us(double hop_us, double transfer_us) {
  if (transfer_us <= hop_us) return transfer_us;
  return 2 * std::sqrt(hop_us * transfer_us) - hop_us;
}

} // namespace

double Fabric::message_count(double bytes) const noexcept { return std::max(1.0, bytes / chunk_bytes); }

Fabric Fabric::inside() const noexcept {
  Fabric result = *this;
  result.node_count = 1;
  return result;
}

Fabric Fabric::across() const noexcept {
  Fabric result = *this;
  result.node_size = 1;
  return result;
}

Fabric make_fabric(const Topology& topology, const Protocol& protocol, int world_size) noexcept {
  Fabric fabric;
  fabric.node_size = std::min(world_size, topology.ranks_per_node);
  fabric.node_count = world_size / fabric.node_size;
  fabric.intra_alpha_us = protocol.intra.alpha_us;
  fabric.inter_alpha_us = protocol.inter.alpha_us;
  fabric.intra_us_per_byte = us_per_byte(protocol.intra.gb_per_s);
  fabric.node_us_per_byte = us_per_byte(protocol.inter.gb_per_s * topology.rails_per_node);
  fabric.intra_message_us = protocol.intra.message_us;
  fabric.chunk_bytes = topology.chunk_bytes;
  fabric.rail_count = topology.rails_per_node;
  const double rails_per_rank = static_cast<double>(topology.rails_per_node) / fabric.node_size;
  const bool is_host_proxy = topology.transport == Transport::HostProxy;
  // A host thread serves all rails of its rank; a device writes to each rail's own queues.
  fabric.rail_message_us = protocol.inter.message_us * (is_host_proxy ? std::max(1.0, rails_per_rank) : 1.0);
  fabric.rank_message_us = is_host_proxy ? protocol.inter.message_us : protocol.inter.message_us / rails_per_rank;
  return fabric;
}

double PieceCost::total_us(double count) const noexcept {
  const double transfer_us = fill_us + (count - 1) * period_us;
  return latency_us + transfer_us + parts_us(hop_us, transfer_us);
}

} // namespace mc2::planner::collectives
