#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lanes/block_layout.hpp"
#include "lanes/peer_order.hpp"
#include "lanes/signal.hpp"
#include "mc2/planner/units.hpp"

namespace mc2::executor::lanes {

/// What one rank gets from all others for one block, and sends them.
struct BlockExchange {
  int rank = 0;
  std::size_t block = 0;
  planner::DType dtype = planner::DType::F32;
  std::int64_t element_count = 0; ///< of the largest piece; pieces that are summed are all as large
  const PieceAddresses* pieces = nullptr;
  SumTarget sum;                ///< where the sum of the pieces goes; nowhere: they are copied to their landings
  RowPitch landing;             ///< of a piece that is copied
  std::span<std::byte> staging; ///< what the backend asks for, of the longest block
  Clock::time_point ready;      ///< when the last data that it waited for became ready
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
