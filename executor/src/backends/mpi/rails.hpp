#pragma once

#include <memory>
#include <vector>

#include "backends/mpi/world.hpp"

namespace mc2::executor::mpi {

/// The ranks, one of each node, that own the same part of a sum, in the order of World::links().ring(); all parts are
/// as large. There are as many rails as the largest node has ranks; a rank of a smaller node is on several.
struct Rail {
  int part = 0;
  std::unique_ptr<Channel> channel;
};

/// All ranks as a ring passes them, World::ring_of_ranks().
struct RingOrder {
  std::vector<int> ranks;
  std::unique_ptr<Channel> channel; ///< over them, in this order
};

/// Order: collective. Throws SystemError.
[[nodiscard]] RingOrder make_ring_order(const World& world);

/// Those that this rank is on, by part; none where no node has several ranks.
/// Order: collective. Throws SystemError.
[[nodiscard]] std::vector<Rail> make_rails(const World& world);

/// How many rails there are.
[[nodiscard]] int rail_count(const Placement& placement) noexcept;
/// The place, of the ranks of a node, that a rail has there.
[[nodiscard]] int place_on_rail(const Placement& placement, int node, int part) noexcept;

} // namespace mc2::executor::mpi
