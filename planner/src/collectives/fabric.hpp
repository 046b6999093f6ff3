#pragma once

#include "mc2/planner/topology.hpp"

namespace mc2::planner::collectives {

/// The part of a topology that a collective uses, with one protocol: node_count nodes of node_size ranks each.
struct Fabric {
  int node_size = 1;
  int node_count = 1;
  double intra_alpha_us = 0;
  double inter_alpha_us = 0;
  double intra_us_per_byte = 0; ///< of one rank
  double node_us_per_byte = 0;  ///< of a whole node through all of its rails
  double intra_message_us = 0;
  double rail_message_us = 0; ///< between two messages of one rail when each rail has its own sender
  double rank_message_us = 0; ///< between two messages of one rank when all ranks send at once
  double chunk_bytes = 0;
  int rail_count = 1;

  [[nodiscard]] int rank_count() const noexcept { return node_size * node_count; }
  /// Messages on a rail that `bytes` need; a fraction stands for a last piece that is not full.
  [[nodiscard]] double message_count(double bytes) const noexcept;
  /// Bytes that all rails together carry in one message each.
  [[nodiscard]] double stage_bytes() const noexcept { return chunk_bytes * rail_count; }
  /// Latency of the slowest kind of hop.
  [[nodiscard]] double hop_us() const noexcept { return node_count > 1 ? inter_alpha_us : intra_alpha_us; }
  /// The links inside one node only.
  [[nodiscard]] Fabric inside() const noexcept;
  /// The links between nodes only, as if each node were one rank with all rails.
  [[nodiscard]] Fabric across() const noexcept;
};

/// @param world_size legal for the topology
[[nodiscard]] Fabric make_fabric(const Topology& topology, const Protocol& protocol, int world_size) noexcept;

/// One piece of a message on its way through an algorithm.
struct PieceCost {
  double latency_us = 0; ///< of all hops, whatever the size
  double fill_us = 0;    ///< from the first byte sent to the last one received, without latency
  double period_us = 0;  ///< time until the next piece can follow, set by the busiest link
  double hop_us = 0;     ///< latency of a hop

  /// Time of `count` >= 1 such pieces one after the other. It includes the cost of a library's own parts: with k parts,
  /// the sender waits k - 1 times for room at the next rank, a hop's latency each, and the links are idle for a k-th of
  /// the transfer while the first part is on its way. Libraries choose k by the size; the best k is assumed.
  [[nodiscard]] double total_us(double count) const noexcept;
};

} // namespace mc2::planner::collectives
