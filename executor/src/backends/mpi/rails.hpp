#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "backends/mpi/world.hpp"

namespace mc2::executor::mpi {

/// The ranks, one on each node, that own the same part of a sum, in the order of World::links().ring(). All parts have
/// the same size. There are as many rails as the largest node has ranks; a rank of a smaller node is on several rails.
struct Rail {
  int part = 0;
  std::unique_ptr<Channel> channel;
};

/// All ranks in the order of a ring, World::ring_of_ranks().
struct RingOrder {
  std::vector<int> ranks;
  std::unique_ptr<Channel> channel; ///< over `ranks`, in this order
};

/// Order: collective. Ends the job if a rank does not come within the deadline. Throws SystemError.
[[nodiscard]] RingOrder make_ring_order(const World& world, std::chrono::milliseconds deadline);

/// The rails that this rank is on, by part. Empty unless there are several nodes and one of them has several ranks.
/// Order and deadline: as make_ring_order. Throws SystemError.
[[nodiscard]] std::vector<Rail> make_rails(const World& world, std::chrono::milliseconds deadline);

/// How many rails there are.
[[nodiscard]] int rail_count(const Placement& placement) noexcept;
/// The place on `node` of the rank that is on the rail of `part`.
[[nodiscard]] int place_on_rail(const Placement& placement, int node, int part) noexcept;

} // namespace mc2::executor::mpi
