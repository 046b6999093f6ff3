#pragma once

#include <cstdint>

namespace mc2::executor::lanes {

/// The order in which a rank turns to its peers. In Staggered, rank r begins with rank r + 1, so that at every moment
/// each rank serves one other; in Rank, all begin with rank 0. The rounding of sums does not depend on it.
enum class PeerOrder : std::uint8_t { Staggered, Rank };

/// The `index`-th of a rank's peers, 0 <= index < world_size - 1.
[[nodiscard]] constexpr int peer_at(PeerOrder order, int rank, int world_size, int index) noexcept {
  if (order == PeerOrder::Staggered) return (rank + 1 + index) % world_size;
  return index < rank ? index : index + 1;
}

} // namespace mc2::executor::lanes
