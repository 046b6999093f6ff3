#pragma once

#include <cstdint>
#include <memory>

#include "lanes/block_exchange.hpp"
#include "lanes/run_control.hpp"
#include "mc2/executor/backend.hpp"

namespace mc2::executor::host {

/// Carries pieces between ranks and combines them (combine.hpp). exchange is called by each rank's communication
/// lane, concurrently for different ranks; the rest while no lane is running, except abort().
class Transport {
 public:
  virtual ~Transport() = default;

  /// True when a block needs the pieces of every rank to be ready; false when it needs only its own, because the
  /// others arrive as messages.
  [[nodiscard]] virtual bool reads_peers_directly() const noexcept { return true; }
  /// Memory per rank to receive pieces of this size that are to be summed, or to be spread over rows.
  [[nodiscard]] virtual std::int64_t staging_bytes(std::int64_t /*piece_bytes*/) const noexcept { return 0; }
  virtual void begin_run(lanes::Clock::time_point /*start*/) noexcept {}
  /// Throws RunAborted, and SystemError naming the rank.
  virtual lanes::ExchangeTimes exchange(const lanes::BlockExchange& block, const lanes::RunControl& control) = 0;
  /// When every lane has ended, also after a failure: nothing may touch the ranks' memory from here on.
  virtual void end_run() noexcept {}
  /// Wakes every lane that is blocked in exchange(). Any thread; the transport is useless afterwards.
  virtual void abort() noexcept {}
};

/// Memory of one rank for the longest block of an operator, in rows or columns: pieces wait there until all are there
/// to be summed, or to be spread over the rows where they land.
[[nodiscard]] std::int64_t staging_bytes(const planner::OpSpec& op, std::int64_t longest_block,
                                         const Transport& transport) noexcept;

/// Plain loads from the other ranks' memory; takes the CPU time that it takes.
[[nodiscard]] std::unique_ptr<Transport> make_shared_memory_transport();

/// Plain loads, then a sleep until a link of this speed would have delivered the data.
/// A rank pulls R-1 pieces in over its incoming direction, one after the other, one block of the plan at a time:
///   start    = max(ready, end of the rank's previous transfer)
///   delivery = start + latency + bytes of the R-1 pieces * 8 / bits_per_s, later where ranks pull from the same peer
///   end      = max(delivery, end of the reduction or copy on the CPU)
/// A rank's outgoing direction has the same rate and is shared by those who pull from it at a time (PullSchedule).
/// A block that brings the rank nothing takes no time. It counts from the time when the data became ready, not from
/// when the lane woke up, so that late wake-ups do not add up.
[[nodiscard]] std::unique_ptr<Transport> make_emulated_transport(const LinkSpec& link, int world_size);

/// A mesh of loopback TCP connections, each paced by the kernel to an equal share of the rank's incoming rate.
/// Throws SystemError.
[[nodiscard]] std::unique_ptr<Transport> make_tcp_transport(const LinkSpec& link, int world_size);

/// The transport that a link asks for. Throws SystemError.
[[nodiscard]] std::unique_ptr<Transport> make_transport(const LinkSpec& link, int world_size);

} // namespace mc2::executor::host
