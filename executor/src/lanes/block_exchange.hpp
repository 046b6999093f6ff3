#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lanes/block_layout.hpp"
#include "lanes/peer_order.hpp"
#include "lanes/signal.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::lanes {

/// One block's exchange on one rank: the pieces that it gets from all ranks and sends to them.
struct BlockExchange {
  int rank = 0;
  std::size_t block = 0;
  planner::DType dtype = planner::DType::F32;
  std::int64_t element_count = 0; ///< elements of the largest piece; pieces that are summed all have this size
  const PieceAddresses* pieces = nullptr;
  SumTarget sum;                ///< where the sum of the pieces goes; empty: pieces are copied to their landings
  RowPitch landing;             ///< distance of rows where a copied piece lands
  std::span<std::byte> staging; ///< the backend's own memory, large enough for the longest block
  Clock::time_point ready;      ///< when the last of the data that the exchange needs became ready
  PeerOrder order = PeerOrder::Staggered;

  [[nodiscard]] bool is_summed() const noexcept { return sum.first != nullptr; }
  [[nodiscard]] std::int64_t piece_bytes() const noexcept { return element_count * planner::size_bytes(dtype); }
};

/// When one block occupied the communication lane.
struct ExchangeTimes {
  Clock::time_point start;
  Clock::time_point end;
};

} // namespace mc2::executor::lanes
