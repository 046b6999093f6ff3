#pragma once

#include "mc2/planner/topology.hpp"

namespace mc2::planner::examples {

/// 4 nodes of 4 ranks with 2 rails each. The numbers are round, so that times can be worked out by hand: 0.001 us per
/// byte inside a node, 0.005 us per byte through both rails of a node.
inline Topology topology() {
  Topology topology;
  topology.name = "example";
  topology.source = "made up";
  topology.sources = {{"compute", "made up"}};
  topology.node_count = 4;
  topology.ranks_per_node = 4;
  topology.rails_per_node = 2;
  topology.chunk_bytes = 1e6;
  topology.protocols = {{"plain", 10, {1, 1, 0}, {5, 0.1, 0.5}, false}};
  topology.algorithms = {
      {Collective::AllReduce, {Algorithm::Ring, Algorithm::Tree, Algorithm::Direct, Algorithm::Hierarchical}},
      {Collective::ReduceScatter, {Algorithm::Ring, Algorithm::Direct, Algorithm::Hierarchical}},
      {Collective::AllGather, {Algorithm::Ring, Algorithm::Direct, Algorithm::Hierarchical}},
      {Collective::AllToAll, {Algorithm::Direct, Algorithm::Hierarchical}}};
  topology.compute = {100, 10, 0.5, 4};
  return topology;
}

} // namespace mc2::planner::examples
