#include "backends/mpi/rails.hpp"

namespace mc2::executor::mpi {

int rail_count(const Placement& placement) noexcept { return placement.largest_node_size(); }

int place_on_rail(const Placement& placement, int node, int part) noexcept { return part % placement.size_of(node); }

RingOrder make_ring_order(const World& world, std::chrono::milliseconds deadline) {
  std::vector<int> ranks = world.ring_of_ranks();
  auto channel = std::make_unique<Channel>(ranks, deadline);
  return {std::move(ranks), std::move(channel)};
}

std::vector<Rail> make_rails(const World& world, std::chrono::milliseconds deadline) {
  const Placement& placement = world.placement();
  std::vector<Rail> own;
  if (!placement.is_hierarchy()) return own;
  const int node = placement.node_of(world.rank());
  for (int part = 0; part < rail_count(placement); ++part) {
    if (place_on_rail(placement, node, part) != placement.place_of(world.rank())) continue;
    std::vector<int> ranks;
    for (const int other : world.links().ring())
      ranks.push_back(placement.ranks_of(other)[static_cast<std::size_t>(place_on_rail(placement, other, part))]);
    own.push_back({part, std::make_unique<Channel>(ranks, deadline)});
  }
  return own;
}

} // namespace mc2::executor::mpi
